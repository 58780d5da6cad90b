//! Where things meet faults, and how they go on.

use sharemark_protocol::messages::RequestMessage;
use sharemark_protocol::{ErrorCode, SharePartitionKey, TopicId, TopicIdPartition, TopicPartition};

use super::super::Broker;
use super::super::crossing::{Call, Crossing};
use super::super::input::{Now, Origin, Output, Request};
use super::{Facts, Fault, FaultAction, FaultPoint, FaultProblem, FaultView, KeptBack, answers};

impl Broker {
    /// Installs a fault and returns its number.
    ///
    /// # Errors
    ///
    /// - `NotThere` if the action makes no sense at that point.
    /// - `NoErrorAnswer` if an error is to be answered for requests of which not every API can.
    /// - `TooMany` if there are too many.
    pub fn install_fault(&mut self, fault: Fault) -> Result<u64, FaultProblem> {
        self.faults.install(fault)
    }

    /// Shows the installed faults, in the order of their numbers.
    pub fn inspect_faults(&self) -> Vec<FaultView> {
        self.faults.views()
    }

    /// Deletes a fault; what it holds goes on.
    ///
    /// # Errors
    ///
    /// - `Unknown` if there is no such fault.
    pub fn delete_fault(&mut self, now: Now, id: u64) -> Result<(), FaultProblem> {
        self.step_began = now;
        self.faults.delete(id)?;
        self.settle(now);
        Ok(())
    }

    /// Deletes all faults; what they hold goes on, in the order in which it was met.
    pub fn delete_faults(&mut self, now: Now) {
        self.step_began = now;
        for id in self.faults.ids() {
            // It is there: its number was just listed.
            let _there = self.faults.delete(id);
        }
        self.settle(now);
    }

    /// Makes a call from node to node, unless a fault meets it. `attempt` counts those before.
    pub(in crate::broker) fn cross(&mut self, now: Now, crossing: Crossing, attempt: u32) {
        let Some(point) = crossing.call.point().filter(|point| self.faults.watches(*point)) else {
            self.carry_out(now, crossing, attempt);
            return;
        };
        let facts = self.facts_of_crossing(&crossing);
        let Some((id, action)) = self.faults.meet(point, &facts) else {
            self.carry_out(now, crossing, attempt);
            return;
        };
        match action {
            FaultAction::Error(error) => self.fail_crossing(now, crossing, attempt, error),
            FaultAction::Drop => self.fail_crossing(now, crossing, attempt, ErrorCode::NetworkException),
            FaultAction::Hold => {
                let kept = self.faults.hold(id, KeptBack::Crossing(Box::new(crossing), attempt));
                self.fail_what_is_too_much(now, kept);
            }
            FaultAction::Delay(ms) => {
                let until = now.real.plus_ms(ms);
                let kept = self.faults.delay(until, KeptBack::Crossing(Box::new(crossing), attempt));
                self.fail_what_is_too_much(now, kept);
            }
            FaultAction::Repeat => {
                let reply = self.ask(now, crossing.to, &crossing.call);
                let _second = self.ask(now, crossing.to, &crossing.call);
                self.conclude(now, crossing, attempt, reply);
            }
            FaultAction::Disconnect => {
                let _lost = self.ask(now, crossing.to, &crossing.call);
                self.fail_crossing(now, crossing, attempt, ErrorCode::NetworkException);
            }
        }
    }

    /// Lets something go on that a fault kept back.
    pub(in crate::broker) fn go_on(&mut self, now: Now, kept: KeptBack) {
        match kept {
            // A call that is made again may be lost again; one that was met once is not met twice.
            KeptBack::Crossing(crossing, attempt) if 0 < attempt => self.ask_again(now, *crossing, attempt),
            KeptBack::Crossing(crossing, attempt) => self.carry_out(now, *crossing, attempt),
            KeptBack::Request(request) => self.dispatch(now, *request),
            KeptBack::Output(output) => self.output(output),
        }
    }

    /// Lets a request meet the faults; returns it if it is to be handled now.
    pub(in crate::broker) fn meet_request(&mut self, now: Now, request: Request) -> Option<Request> {
        if !self.faults.watches(FaultPoint::Request) {
            return Some(request);
        }
        let facts = self.facts_of_request(&request);
        let Some((id, action)) = self.faults.meet(FaultPoint::Request, &facts) else { return Some(request) };
        let connection = request.origin.connection;
        let kept = match action {
            FaultAction::Error(error) => {
                if let Some(answer) = answers::refusal(&request.message, error) {
                    self.answer(&request.origin, answer);
                }
                return None;
            }
            FaultAction::Drop => return None,
            FaultAction::Disconnect => {
                self.output(Output::Close { connection });
                return None;
            }
            FaultAction::Repeat => {
                let again = Request {
                    origin: Origin { connection: self.faults.nobody(), ..request.origin.clone() },
                    ..request.clone()
                };
                self.dispatch(now, request);
                return Some(again);
            }
            FaultAction::Hold => self.faults.hold(id, KeptBack::Request(Box::new(request))),
            FaultAction::Delay(ms) => {
                self.faults.delay(now.real.plus_ms(ms), KeptBack::Request(Box::new(request)))
            }
        };
        if kept.is_err() {
            self.output(Output::Close { connection });
        }
        None
    }

    /// Lets an answer meet the faults; returns what is to be sent now.
    pub(in crate::broker) fn meet_answer(&mut self, origin: &Origin, output: Output) -> Option<Output> {
        let Output::Answer { message, .. } = &output else { return Some(output) };
        if !self.faults.watches(FaultPoint::Response) {
            return Some(output);
        }
        let facts = Facts { api: Some(message.api_key()), node: Some(origin.node), ..Facts::default() };
        let Some((id, action)) = self.faults.meet(FaultPoint::Response, &facts) else { return Some(output) };
        let cut = Output::Close { connection: origin.connection };
        match action {
            FaultAction::Error(_) | FaultAction::Repeat => Some(output), // Neither is installed there.
            FaultAction::Drop => None,
            FaultAction::Disconnect => Some(cut),
            FaultAction::Hold => self.faults.hold(id, KeptBack::Output(output)).err().map(|_| cut),
            FaultAction::Delay(ms) => {
                let until = self.step_began.real.plus_ms(ms);
                self.faults.delay(until, KeptBack::Output(output)).err().map(|_| cut)
            }
        }
    }

    /// Lets an append meet the faults.
    ///
    /// # Errors
    ///
    /// - What a fault says.
    pub(in crate::broker) fn meet_append(&mut self, at: TopicIdPartition) -> Result<(), ErrorCode> {
        if !self.faults.watches(FaultPoint::LogAppend) {
            return Ok(());
        }
        let node = self.cluster.partition(at).map(|partition| partition.leader);
        let facts = Facts { node, places: self.place(at).into_iter().collect(), ..Facts::default() };
        match self.faults.meet(FaultPoint::LogAppend, &facts) {
            Some((_, FaultAction::Error(error))) => Err(error),
            Some(_) | None => Ok(()),
        }
    }

    fn place(&self, at: TopicIdPartition) -> Option<(String, i32)> {
        Some((self.topic_name(at.topic_id)?, at.partition))
    }

    fn topic_name(&self, id: TopicId) -> Option<String> {
        self.cluster.topic(id).map(|topic| topic.name.to_string())
    }

    fn facts_of_crossing(&self, crossing: &Crossing) -> Facts {
        let mut facts = Facts { from: Some(crossing.from), to: Some(crossing.to), ..Facts::default() };
        let mut keys: Vec<&SharePartitionKey> = Vec::new();
        match &crossing.call {
            Call::InitialiseShareStates { states, .. } => {
                facts.group = Some(states.group_id.to_string());
                for topic in &states.topics {
                    let name = self.topic_name(topic.topic_id).unwrap_or_default();
                    facts.places.extend(topic.partitions.keys().map(|partition| (name.clone(), *partition)));
                }
            }
            Call::DeleteShareStates { states, .. } => {
                facts.group = Some(states.group_id.to_string());
                for (topic_id, partitions) in &states.partitions {
                    let name = self.topic_name(*topic_id).unwrap_or_default();
                    facts.places.extend(partitions.iter().map(|partition| (name.clone(), *partition)));
                }
            }
            Call::ReadShareState { key, .. } => keys.push(key),
            Call::WriteShareState { write, .. } => keys.push(&write.key),
            Call::StageShareStates(states) => {
                facts.transactional_id = Some(states.transactional_id.to_string());
                keys.extend(states.writes.iter().map(|(_, _, write)| &write.key));
            }
            Call::CheckMember { group_id, .. } => facts.group = Some(group_id.to_string()),
            Call::AddToTransaction(request) => {
                facts.transactional_id = Some(request.transactional_id.clone());
                facts.places.extend(named_places(&request.partitions));
            }
            Call::FindOngoing { transactional_id, partitions, .. } => {
                facts.transactional_id = Some(transactional_id.to_string());
                facts.places.extend(named_places(partitions));
            }
            Call::WriteMarkers { marker, .. } => {
                facts.transactional_id = Some(marker.key.transactional_id.to_string());
                facts.places.extend(named_places(&marker.partitions));
            }
            Call::WriteDeadLetters(write) => facts.places.extend(self.place(write.place())),
            Call::ForgetShareGroup(_) => {}
            Call::SummariseShareStates { keys: asked, .. } => keys.extend(asked),
        }
        for key in keys {
            facts.group = Some(key.group_id.to_string());
            facts
                .places
                .extend(self.place(TopicIdPartition { topic_id: key.topic_id, partition: key.partition }));
        }
        facts
    }

    fn facts_of_request(&self, request: &Request) -> Facts {
        let mut facts = Facts {
            api: Some(request.message.api_key()),
            node: Some(request.origin.node),
            ..Facts::default()
        };
        let text = |text: &sharemark_protocol::StrBytes| text.to_string();
        let mut by_id: Vec<(TopicId, i32)> = Vec::new();
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "other requests are told apart by their API alone"
        )]
        match &request.message {
            RequestMessage::EndTxn(body) => facts.transactional_id = Some(text(&body.transactional_id)),
            RequestMessage::InitProducerId(body) => {
                facts.transactional_id = body.transactional_id.as_ref().map(text);
            }
            RequestMessage::Produce(body) => {
                facts.transactional_id = body.transactional_id.as_ref().map(text);
                for topic in &body.topic_data {
                    let name = self.topic_name(topic.topic_id).unwrap_or_else(|| text(&topic.name));
                    facts.places.extend(topic.partition_data.iter().map(|it| (name.clone(), it.index)));
                }
            }
            RequestMessage::Fetch(body) => {
                for topic in &body.topics {
                    let name = self.topic_name(topic.topic_id).unwrap_or_else(|| text(&topic.topic));
                    facts.places.extend(topic.partitions.iter().map(|it| (name.clone(), it.partition)));
                }
            }
            RequestMessage::ShareFetch(body) => {
                facts.group = body.group_id.as_ref().map(text);
                let topics = body.topics.iter();
                by_id.extend(topics.flat_map(|topic| {
                    topic.partitions.iter().map(|it| (topic.topic_id, it.partition_index))
                }));
            }
            RequestMessage::ShareAcknowledge(body) => {
                facts.group = body.group_id.as_ref().map(text);
                let topics = body.topics.iter();
                by_id.extend(topics.flat_map(|topic| {
                    topic.partitions.iter().map(|it| (topic.topic_id, it.partition_index))
                }));
            }
            RequestMessage::ShareGroupHeartbeat(body) => facts.group = Some(text(&body.group_id)),
            RequestMessage::TxnShareAcknowledge(body) => {
                facts.group = Some(text(&body.group_id));
                facts.transactional_id = body.transactional_id.as_ref().map(text);
                let topics = body.topics.iter();
                by_id.extend(topics.flat_map(|topic| {
                    topic.partitions.iter().map(|it| (topic.topic_id, it.partition_index))
                }));
            }
            _ => {}
        }
        for (topic_id, partition) in by_id {
            facts.places.extend(self.topic_name(topic_id).map(|name| (name, partition)));
        }
        facts
    }
}

fn named_places(partitions: &[TopicPartition]) -> impl Iterator<Item = (String, i32)> {
    partitions.iter().map(|place| (place.topic.to_string(), place.partition))
}
