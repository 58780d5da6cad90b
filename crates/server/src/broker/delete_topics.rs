//! DeleteTopics (20), versions 1-6.
//!
//! Differences from Kafka: done when answered, so the request's timeout never matters; any node answers.

use std::collections::BTreeSet;

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use sharemark_protocol::messages::delete_topics_response::{DeletableTopicResult, DeleteTopicsResponse};
use sharemark_protocol::{ErrorCode, TopicId};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::{Now, Origin};

impl Broker {
    pub(super) fn handle_delete_topics(&mut self, now: Now, origin: &Origin, request: &DeleteTopicsRequest) {
        let asked: Vec<DeleteTopicState> = if origin.api_version < 6 {
            let named =
                |name: &_| DeleteTopicState { name: Some(Clone::clone(name)), topic_id: TopicId::ZERO };
            request.topic_names.iter().map(named).collect()
        } else {
            request.topics.clone()
        };
        let mut seen = BTreeSet::new();
        let mut responses = Vec::with_capacity(asked.len());
        for topic in &asked {
            let outcome = self.decide_delete_topic(origin, topic, &mut seen);
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

    fn decide_delete_topic(
        &self,
        origin: &Origin,
        asked: &DeleteTopicState,
        seen: &mut BTreeSet<TopicId>,
    ) -> Result<TopicId, (ErrorCode, &'static str)> {
        if !self.cluster.configs.broker().delete_topic_enable {
            let error = if origin.api_version < 3 {
                ErrorCode::InvalidRequest
            } else {
                ErrorCode::TopicDeletionDisabled
            };
            return Err((error, "Topic deletion is disabled."));
        }
        let topic = match (&asked.name, asked.topic_id) {
            (Some(_), id) if id != TopicId::ZERO => {
                return Err((ErrorCode::InvalidRequest, "You may not specify both topic name and topic id."));
            }
            (Some(name), _) => self.cluster.topic_named(name).ok_or((
                ErrorCode::UnknownTopicOrPartition,
                "This server does not host this topic-partition.",
            ))?,
            (None, TopicId::ZERO) => {
                return Err((ErrorCode::InvalidRequest, "Neither topic name nor id were specified."));
            }
            (None, id) => self
                .cluster
                .topic(id)
                .ok_or((ErrorCode::UnknownTopicId, "This server does not host this topic ID."))?,
        };
        if !authorize(&origin.principal, Operation::Delete, Resource::Topic(&topic.name)) {
            return Err((ErrorCode::TopicAuthorizationFailed, "Topic authorization failed."));
        }
        if !seen.insert(topic.id) {
            return Err((ErrorCode::InvalidRequest, "Duplicate topic name."));
        }
        Ok(topic.id)
    }
}
