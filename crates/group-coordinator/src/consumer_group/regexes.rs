//! Subscriptions by regular expression: when they are looked up, and what becomes of the topics found.
//!
//! The heartbeat that brings a new expression is answered before the topics are looked up; the lookup raises the
//! group's epoch, and the next heartbeat brings the assignment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sharemark_protocol::{ErrorCode, Timestamp};

use super::heartbeat::ConsumerContext;
use super::members::Members;
use super::pattern::TopicPattern;
use super::{ConsumerGroup, ConsumerMember};
use crate::record::{ConsumerGroupMetadata, ConsumerGroupRecord, GroupRecord, ResolvedRegularExpression};
use crate::topics::{Topics, metadata_hash};
use crate::{ConsumerGroupConfig, Refusal};

/// What a request does to the member's regular expression.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RegexChange {
    /// Nothing.
    None,
    /// It is another one, whose topics are not known yet.
    Unresolved,
    /// It is another one whose topics are known, or none.
    Resolved,
}

/// The judgement of a member's regular expression.
pub(super) struct JudgedRegex<'a> {
    pub(super) change: RegexChange,
    /// An expression that nobody has any more.
    pub(super) dropped: Option<&'a str>,
    /// Whether all expressions are to be looked up.
    pub(super) resolves: bool,
}

impl ConsumerGroup {
    /// Judges what a request makes of a member's regular expression.
    ///
    /// # Errors
    ///
    /// - `InvalidRegularExpression` if it is new to the group and is none.
    pub(super) fn judge_regex<'a>(
        &self,
        group_id: &Arc<str>,
        before: &'a ConsumerMember,
        updated: &ConsumerMember,
        members: &Members<'_>,
        context: &ConsumerContext<'_, impl Topics>,
        records: &mut Vec<ConsumerGroupRecord>,
    ) -> Result<JudgedRegex<'a>, Refusal> {
        let mut judged = JudgedRegex { change: RegexChange::None, dropped: None, resolves: false };
        let mut is_new = false;
        if before.metadata.subscribed_topic_regex != updated.metadata.subscribed_topic_regex {
            judged.change = RegexChange::Unresolved;
            judged.dropped = before.regex().filter(|regex| self.subscriber_count(regex) == 1);
            if let Some(regex) = judged.dropped {
                records.push(ConsumerGroupRecord::RegularExpression {
                    group_id: group_id.clone(),
                    regex: regex.into(),
                    value: None,
                });
            }
            match updated.regex() {
                Some(regex) if self.subscriber_count(regex) == 0 => {
                    TopicPattern::compile(regex).ok_or(Refusal::with(
                        ErrorCode::InvalidRegularExpression,
                        "the subscription is no regular expression",
                    ))?;
                    is_new = true;
                }
                Some(regex) if self.resolved.contains_key(regex) => judged.change = RegexChange::Resolved,
                None if before.regex().is_some() => judged.change = RegexChange::Resolved,
                Some(_) | None => {}
            }
        }
        judged.resolves = self.is_lookup_due(is_new, members, context);
        Ok(judged)
    }

    fn is_lookup_due(
        &self,
        is_new: bool,
        members: &Members<'_>,
        context: &ConsumerContext<'_, impl Topics>,
    ) -> bool {
        let regexes: BTreeSet<&str> = members.values().filter_map(|member| member.regex()).collect();
        if regexes.is_empty() {
            return false;
        }
        let Some(last) = self.resolved.values().next() else { return true };
        let last_ms = Timestamp::from_ms(last.timestamp_ms);
        let config: &ConsumerGroupConfig = context.config;
        if context.now < last_ms.plus_ms(config.regex_batch_interval_ms) {
            return false;
        }
        is_new
            || regexes.len() != self.resolved.len()
            || context.topics_version.is_none()
            || last.version < version_of(context.topics.created_version())
            || last_ms.plus_ms(config.regex_refresh_interval_ms) < context.now
    }

    fn subscriber_count(&self, regex: &str) -> usize {
        self.members.values().filter(|member| member.regex() == Some(regex)).count()
    }

    /// Decides what a lookup of all regular expressions changes. Only topics that `may_see` lets through count.
    pub(crate) fn decide_regexes_resolved(
        &self,
        group_id: &Arc<str>,
        now: Timestamp,
        topics: &impl Topics,
        may_see: impl Fn(&str) -> bool,
    ) -> Vec<GroupRecord> {
        let regexes: BTreeSet<&str> = self.members.values().filter_map(ConsumerMember::regex).collect();
        let mut found: BTreeMap<Arc<str>, ResolvedRegularExpression> = BTreeMap::new();
        let version = version_of(topics.version());
        for regex in regexes {
            // Where no topic has changed since, what was found then is found again: to look a large expression up
            // among many topics takes long, and every new member brings a lookup of all.
            let topics = match self.resolved.get(regex).filter(|known| known.version == version) {
                Some(known) => known.topics.iter().filter(|name| may_see(name)).cloned().collect(),
                None => matching_topics(regex, topics, &may_see),
            };
            let resolved = ResolvedRegularExpression { topics, version, timestamp_ms: now.ms() };
            found.insert(regex.into(), resolved);
        }
        let nothing = BTreeSet::new();
        let known = |regex: &Arc<str>| self.resolved.get(regex).map_or(&nothing, |resolved| &resolved.topics);
        let changed = found.iter().any(|(regex, resolved)| *known(regex) != resolved.topics);
        let by_name = self.members.values().flat_map(|member| &member.metadata.subscribed_topic_names);
        let by_regex = found.values().flat_map(|resolved| &resolved.topics);
        let names: BTreeSet<&Arc<str>> = by_name.chain(by_regex).collect();
        let metadata_hash = metadata_hash(names, topics);
        let mut records: Vec<GroupRecord> = Vec::new();
        let raises = changed || metadata_hash != self.metadata_hash;
        for (regex, value) in found {
            records.push(GroupRecord::Consumer(ConsumerGroupRecord::RegularExpression {
                group_id: group_id.clone(),
                regex,
                value: Some(value),
            }));
        }
        if raises {
            records.push(GroupRecord::Consumer(ConsumerGroupRecord::Metadata {
                group_id: group_id.clone(),
                value: Some(ConsumerGroupMetadata { epoch: self.epoch.next(), metadata_hash }),
            }));
        }
        records
    }
}

/// Looks up which topics a regular expression matches.
fn matching_topics(regex: &str, topics: &impl Topics, may_see: impl Fn(&str) -> bool) -> BTreeSet<Arc<str>> {
    let Some(pattern) = TopicPattern::compile(regex) else { return BTreeSet::new() };
    topics.names().filter(|name| pattern.is_match(name) && may_see(name)).map(Arc::from).collect()
}

fn version_of(version: u64) -> i64 {
    i64::try_from(version).unwrap_or(i64::MAX)
}
