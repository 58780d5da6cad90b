//! Doors of consumer groups.

use super::*;

impl GroupCoordinatorShard {
    /// Applies one record of a consumer group.
    pub(super) fn replay_consumer(&mut self, record: &ConsumerGroupRecord) {
        let group_id = record.group_id();
        if matches!(record, ConsumerGroupRecord::Metadata { value: None, .. }) {
            self.remove_group(group_id);
            return;
        }
        let is_consumer = matches!(self.groups.get(group_id), Some(Group::Consumer(_)));
        if !is_consumer {
            // The group is gone already: the log was compacted.
            if record.is_tombstone() {
                return;
            }
            self.remove_group(group_id);
            self.groups.insert(group_id.clone(), Group::Consumer(Box::default()));
        }
        let Some(Group::Consumer(group)) = self.groups.get_mut(group_id) else {
            unreachable!("the group was made if it was missing")
        };
        group.replay(record);
        if let ConsumerGroupRecord::MemberMetadata { group_id, member_id, value: None } = record {
            self.sessions.remove(group_id, member_id);
        }
        if let Some(soft) = self.soft.get_mut(group_id) {
            soft.is_settled = false;
        }
    }
}
