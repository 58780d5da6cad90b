//! Doors for those who look at groups and administer them.

use super::*;

impl GroupCoordinatorShard {
    /// Describes a share group, for `ShareGroupDescribe`.
    ///
    /// # Errors
    ///
    /// - `InvalidGroupId` if the id is empty.
    /// - `GroupIdNotFound` if the group is unknown or of another type.
    pub fn describe_share_group(&self, group_id: &str) -> Result<DescribedShareGroup, Refusal> {
        if group_id.is_empty() {
            return Err(Refusal::of(ErrorCode::InvalidGroupId));
        }
        self.share_group(group_id).map(|(_, group)| group.describe())
    }

    /// Lists the groups in the order of their ids, for `ListGroups`. A filter that is empty lets all through;
    /// letter case and, for states, blanks around do not matter.
    pub fn list_groups(&self, states: &[&str], types: &[&str]) -> Vec<ListedGroup> {
        let listed = self.groups.iter().map(|(group_id, group)| {
            let (protocol_type, state, group_type) = match group {
                Group::Classic(group) => (group.protocol_type(), group.state().name(), "classic"),
                Group::Consumer(group) => ("consumer", group.state().name(), "consumer"),
                Group::Share(group) => ("share", group.state().name(), "share"),
            };
            ListedGroup { group_id: group_id.clone(), protocol_type: protocol_type.into(), state, group_type }
        });
        let has = |filter: &[&str], name: &str| {
            filter.is_empty() || filter.iter().any(|wanted| wanted.trim().eq_ignore_ascii_case(name))
        };
        listed.filter(|group| has(states, group.state) && has(types, group.group_type)).collect()
    }

    /// Returns the share partitions of a group that have a state, for `DescribeShareGroupOffsets`; none if
    /// there is no such share group.
    pub fn initialised_partitions(&self, group_id: &str) -> Option<&BTreeMap<TopicId, StateTopic>> {
        self.share_group(group_id).ok().map(|(_, group)| &group.states().initialised)
    }

    /// Decides the first half of deleting a group; changes nothing.
    ///
    /// # Errors
    ///
    /// - `GroupIdNotFound` if the group is unknown.
    /// - `NonEmptyGroup` if it has members.
    pub fn decide_delete_group(
        &self,
        group_id: &str,
        topics: &impl Topics,
    ) -> Result<DeleteGroupDecision, Refusal> {
        if self.empty_classic_group(group_id)?.is_some() {
            return Ok(DeleteGroupDecision { records: Vec::new(), states_to_delete: None });
        }
        if let Ok((_, group)) = self.consumer_group(group_id) {
            group.check_empty()?;
            return Ok(DeleteGroupDecision { records: Vec::new(), states_to_delete: None });
        }
        let (group_id, group) = self.share_group(group_id)?;
        group.check_empty()?;
        Ok(group.decide_delete(group_id, topics))
    }

    /// Decides the second half, after the share coordinator dropped the states; changes nothing.
    ///
    /// # Errors
    ///
    /// As `decide_delete_group`, since a member may have joined in between.
    pub fn decide_group_deleted(&self, group_id: &str) -> Result<Vec<GroupRecord>, Refusal> {
        if let Some(group_id) = self.empty_classic_group(group_id)? {
            let mut records = self.offset_tombstones(group_id);
            records.push(GroupRecord::ClassicGroup { group_id: group_id.clone(), value: None });
            return Ok(records);
        }
        if let Ok((group_id, group)) = self.consumer_group(group_id) {
            group.check_empty()?;
            let mut records = self.offset_tombstones(group_id);
            records.extend(group.decide_delete(group_id));
            return Ok(records);
        }
        let (group_id, group) = self.share_group(group_id)?;
        group.check_empty()?;
        Ok(group.decide_deleted(group_id))
    }

    /// Returns the classic group of this id; nothing if there is none.
    ///
    /// # Errors
    ///
    /// - `NonEmptyGroup` if it has members.
    fn empty_classic_group(&self, group_id: &str) -> Result<Option<&Arc<str>>, Refusal> {
        match self.groups.get_key_value(group_id) {
            Some((group_id, Group::Classic(group))) if group.is_empty() => Ok(Some(group_id)),
            Some((_, Group::Classic(_))) => Err(Refusal::of(ErrorCode::NonEmptyGroup)),
            Some((_, Group::Consumer(_) | Group::Share(_))) | None => Ok(None),
        }
    }

    /// Decides an `AlterShareGroupOffsets`; changes nothing. An unknown group is made, without members.
    ///
    /// # Errors
    ///
    /// - `InvalidGroupId` if the id is empty.
    /// - `GroupIdNotFound` if the group is of another type.
    /// - `NonEmptyGroup` if it has members.
    /// - `GroupMaxSizeReached` if the shard is full.
    pub fn decide_alter_offsets(
        &self,
        group_id: &str,
        request: &[AlterOffsetsTopic<'_>],
        topics: &impl Topics,
    ) -> Result<AlterOffsetsDecision, Refusal> {
        if group_id.is_empty() {
            return Err(Refusal::of(ErrorCode::InvalidGroupId));
        }
        if !self.groups.contains_key(group_id) {
            self.check_room()?;
            return Ok(ShareGroup::default().decide_alter_offsets(&group_id.into(), request, topics));
        }
        let (group_id, group) = self.share_group(group_id)?;
        group.check_empty()?;
        Ok(group.decide_alter_offsets(group_id, request, topics))
    }

    /// Decides the first half of a `DeleteShareGroupOffsets`; changes nothing.
    ///
    /// # Errors
    ///
    /// - `GroupIdNotFound` if the group is unknown or of another type.
    /// - `NonEmptyGroup` if it has members.
    pub fn decide_delete_offsets(
        &self,
        group_id: &str,
        names: &[&str],
        topics: &impl Topics,
    ) -> Result<DeleteOffsetsDecision, Refusal> {
        let (group_id, group) = self.share_group(group_id)?;
        group.check_empty()?;
        Ok(group.decide_delete_offsets(group_id, names, topics))
    }

    /// Decides the second half, after the share coordinator dropped the states of these topics; changes nothing.
    pub fn decide_offsets_deleted(&self, group_id: &str, topic_ids: &BTreeSet<TopicId>) -> Vec<GroupRecord> {
        let group = self.share_group(group_id);
        group.map(|(group_id, group)| group.decide_offsets_deleted(group_id, topic_ids)).unwrap_or_default()
    }
}
