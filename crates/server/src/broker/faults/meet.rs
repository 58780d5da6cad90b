//! Where things meet faults, and how they go on.

use sharemark_protocol::{ErrorCode, TopicIdPartition};

use super::super::Broker;
use super::super::crossing::Crossing;
use super::super::input::{Now, Origin, Output, Request};
use super::{Asked, Facts, Fault, FaultAction, FaultPoint, FaultProblem, FaultView, KeptBack, answers};

impl Broker {
    /// Installs a fault and returns its number.
    ///
    /// # Errors
    ///
    /// - `NotThere` if the action makes no sense at that point.
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
        let is_lost = self.are_apart(crossing.from, crossing.to);
        let point = crossing.call.point().filter(|point| !is_lost && self.faults.watches(*point));
        let Some(point) = point else {
            self.carry_out(now, crossing, attempt, false);
            return;
        };
        let facts = self.facts_of_crossing(&crossing);
        let Some((id, action)) = self.faults.meet(point, &facts) else {
            self.carry_out(now, crossing, attempt, false);
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
                let reply = self.ask(now, crossing.to, &crossing.call, 0 < attempt);
                let _second = self.ask(now, crossing.to, &crossing.call, true);
                self.conclude(now, crossing, attempt, reply);
            }
            FaultAction::Disconnect => {
                let _lost = self.ask(now, crossing.to, &crossing.call, 0 < attempt);
                self.fail_crossing(now, crossing, attempt, ErrorCode::NetworkException);
            }
        }
    }

    /// Lets something go on that a fault kept back.
    pub(in crate::broker) fn go_on(&mut self, now: Now, kept: KeptBack) {
        match kept {
            // A call that is made again may be lost again; one that was met once is not met twice.
            KeptBack::Crossing(crossing, attempt) if 0 < attempt => self.ask_again(now, *crossing, attempt),
            KeptBack::Crossing(crossing, attempt) => self.carry_out(now, *crossing, attempt, true),
            KeptBack::Request(request) => self.dispatch(now, *request),
            KeptBack::Output(output) => self.output(output),
        }
        for (node, group_id) in self.faults.take_to_forget() {
            self.forget_share_group(node, &group_id); // Unless more is kept back.
        }
    }

    /// Lets a request meet the faults; returns it if it is to be handled now.
    pub(in crate::broker) fn meet_request(&mut self, now: Now, request: Request) -> Option<Request> {
        if self.faults.watches(FaultPoint::Response) {
            let asked = Asked { facts: self.facts_of_request(&request), message: request.message.clone() };
            self.faults.note_asked(request.origin.connection, asked);
        }
        if !self.faults.watches(FaultPoint::Request) {
            return Some(request);
        }
        let facts = self.facts_of_request(&request);
        let Some((id, action)) = self.faults.meet(FaultPoint::Request, &facts) else { return Some(request) };
        let connection = request.origin.connection;
        let kept = match action {
            FaultAction::Error(error) => {
                match answers::refusal(&request.message, error) {
                    Some(answer) => self.answer(&request.origin, answer),
                    None => self.output(Output::Close { connection }),
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

    /// Lets an answer meet the faults; returns what is to be sent now. Of a request that came before any fault waited
    /// for answers only its API and its node are known.
    pub(in crate::broker) fn meet_answer(&mut self, origin: &Origin, output: Output) -> Option<Output> {
        let Output::Answer { api_version, message, .. } = &output else { return Some(output) };
        let (api_version, api) = (*api_version, message.api_key());
        let asked = self.faults.take_asked(origin.connection);
        if !self.faults.watches(FaultPoint::Response) {
            return Some(output);
        }
        let (facts, request) = match asked {
            Some(Asked { facts, message }) => (facts, Some(message)),
            None => (Facts { api: Some(api), node: Some(origin.node), ..Facts::default() }, None),
        };
        let Some((id, action)) = self.faults.meet(FaultPoint::Response, &facts) else { return Some(output) };
        let cut = Output::Close { connection: origin.connection };
        match action {
            FaultAction::Error(error) => {
                let refusal = request.and_then(|request| answers::refusal(&request, error));
                let told = |message| Output::Answer {
                    connection: origin.connection,
                    api_version,
                    message: Box::new(message),
                };
                Some(refusal.map_or(cut, told))
            }
            FaultAction::Repeat => Some(output), // It is not installed there.
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
}
