//! DeleteTopics (20), versions 1-6.
//!
//! Differences from Kafka: done when answered, so the request's timeout never matters; any node answers.

use std::collections::{BTreeMap, BTreeSet};

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use sharemark_protocol::messages::delete_topics_response::{DeletableTopicResult, DeleteTopicsResponse};
use sharemark_protocol::{ErrorCode, TopicId};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::{Now, Origin};

/// Why a topic is not deleted: the error and Kafka's sentence for it.
type Refusal = (ErrorCode, &'static str);

/// A topic of a request with what is decided about it.
type Decided<'a> = (&'a DeleteTopicState, Result<TopicId, Refusal>);

/// How a request mentions a topic.
type Mention<'a> = (Option<&'a str>, TopicId);

impl Broker {
    pub(super) fn handle_delete_topics(&mut self, now: Now, origin: &Origin, request: &DeleteTopicsRequest) {
        let asked: Vec<DeleteTopicState> = if origin.api_version < 6 {
            let named =
                |name: &_| DeleteTopicState { name: Some(Clone::clone(name)), topic_id: TopicId::ZERO };
            request.topic_names.iter().map(named).collect()
        } else {
            request.topics.clone()
        };
        // All are judged before one is deleted, so that each mention of a topic counts.
        let decided = self.decide_delete_topics(origin, &asked);
        let mut responses = Vec::with_capacity(decided.len());
        for (topic, outcome) in decided {
            let response = match outcome {
                Ok(id) => {
                    let name = self.delete_topic(now, id).map(|deleted| (&*deleted.name).into());
                    DeletableTopicResult { name, topic_id: id, ..DeletableTopicResult::default() }
                }
                Err((error, text)) => DeletableTopicResult {
                    name: topic.name.clone(),
                    topic_id: topic.topic_id,
                    error_code: error.code(),
                    error_message: Some(text.into()),
                },
            };
            responses.push(response);
        }
        self.answer(
            origin,
            ResponseMessage::DeleteTopics(DeleteTopicsResponse { throttle_time_ms: 0, responses }),
        );
    }

    /// Judges each topic once, however often it is mentioned.
    fn decide_delete_topics<'a>(&self, origin: &Origin, asked: &'a [DeleteTopicState]) -> Vec<Decided<'a>> {
        let mut mentions: BTreeMap<Mention<'a>, usize> = BTreeMap::new();
        for topic in asked {
            *mentions.entry((topic.name.as_deref(), topic.topic_id)).or_default() += 1;
        }
        let mut left: BTreeSet<Mention<'a>> = mentions.keys().copied().collect();
        let mut decided = Vec::with_capacity(mentions.len());
        for topic in asked {
            if !left.remove(&(topic.name.as_deref(), topic.topic_id)) {
                continue; // Its first mention has been answered.
            }
            let outcome = self.decide_delete_topic(origin, topic, &mentions);
            // Named by its id and by its name: the answer to the name says so.
            let also_named = topic.name.is_none()
                && outcome
                    .and_then(|id| self.cluster.topic(id).ok_or((ErrorCode::UnknownTopicId, "")))
                    .is_ok_and(|found| mentions.contains_key(&(Some(&*found.name), TopicId::ZERO)));
            if !also_named {
                decided.push((topic, outcome));
            }
        }
        decided
    }

    fn decide_delete_topic(
        &self,
        origin: &Origin,
        asked: &DeleteTopicState,
        mentions: &BTreeMap<Mention<'_>, usize>,
    ) -> Result<TopicId, Refusal> {
        if !self.cluster.configs.broker().delete_topic_enable {
            let error = if origin.api_version < 3 {
                ErrorCode::InvalidRequest
            } else {
                ErrorCode::TopicDeletionDisabled
            };
            return Err((error, "Topic deletion is disabled."));
        }
        let again = mentions.get(&(asked.name.as_deref(), asked.topic_id)).is_some_and(|count| 1 < *count);
        let topic = match (&asked.name, asked.topic_id) {
            (Some(_), id) if id != TopicId::ZERO => {
                return Err((ErrorCode::InvalidRequest, "You may not specify both topic name and topic id."));
            }
            (None, TopicId::ZERO) => {
                return Err((ErrorCode::InvalidRequest, "Neither topic name nor id were specified."));
            }
            (Some(_), _) if again => return Err((ErrorCode::InvalidRequest, "Duplicate topic name.")),
            (None, _) if again => return Err((ErrorCode::InvalidRequest, "Duplicate topic id.")),
            (Some(name), _) => self.cluster.topic_named(name).ok_or((
                ErrorCode::UnknownTopicOrPartition,
                "This server does not host this topic-partition.",
            ))?,
            (None, id) => self
                .cluster
                .topic(id)
                .ok_or((ErrorCode::UnknownTopicId, "This server does not host this topic ID."))?,
        };
        if !authorize(&origin.principal, Operation::Delete, Resource::Topic(&topic.name)) {
            return Err((ErrorCode::TopicAuthorizationFailed, "Topic authorization failed."));
        }
        if asked.name.is_some() && mentions.contains_key(&(None, topic.id)) {
            let text = "The provided topic name maps to an ID that was already supplied.";
            return Err((ErrorCode::InvalidRequest, text));
        }
        Ok(topic.id)
    }
}
