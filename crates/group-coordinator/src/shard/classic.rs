//! Classic groups: their records, and who asks for them.

use crate::record::ClassicGroupMetadata;

use super::*;

impl GroupCoordinatorShard {
    /// Applies the record of a classic group.
    pub(super) fn replay_classic_group(&mut self, group_id: &Arc<str>, value: Option<&ClassicGroupMetadata>) {
        let Some(value) = value else {
            self.remove_group(group_id);
            return;
        };
        if !matches!(self.groups.get(group_id), Some(Group::Classic(_))) {
            self.remove_group(group_id);
            self.groups.insert(group_id.clone(), Group::Classic(Box::default()));
        }
        if let Some(Group::Classic(group)) = self.groups.get_mut(group_id) {
            group.replay(value);
        }
    }
}
