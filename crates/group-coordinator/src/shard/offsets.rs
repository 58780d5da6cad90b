//! Committed offsets: their records, and who asks for them.

use sharemark_protocol::ProducerId;

use super::*;

impl GroupCoordinatorShard {
    /// Applies one record that is part of a producer's transaction, live or at recovery. It cannot fail.
    pub fn replay_transactional(&mut self, offset: Offset, producer: ProducerId, record: &GroupRecord) {
        self.note_replayed(offset);
        self.replay_offset(offset, Some(producer), record);
    }

    /// Applies the marker that ends a producer's transaction, live or at recovery. It cannot fail.
    pub fn replay_end_transaction_marker(&mut self, offset: Offset, producer: ProducerId, committed: bool) {
        self.note_replayed(offset);
        self.offsets.replay_end_transaction_marker(producer, committed);
    }

    pub(super) fn replay_offset(
        &mut self,
        offset: Offset,
        producer: Option<ProducerId>,
        record: &GroupRecord,
    ) {
        let GroupRecord::OffsetCommit { group_id, topic, partition, value } = record else { return };
        if value.is_some() && !self.groups.contains_key(group_id) {
            // Whoever commits without being a member makes a group without members.
            self.groups.insert(group_id.clone(), Group::Classic(Box::default()));
        }
        self.offsets.replay(offset, producer, group_id, (topic, *partition), value.as_ref());
    }
}
