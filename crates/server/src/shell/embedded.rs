//! What a program that embeds a server may do to it: the verbs of the control endpoint.

use std::time::Duration;

use sharemark_protocol::NodeId;

use super::control::{self, ClockView, ControlError, render};
use super::requests::RequestView;
use super::server::Server;
use crate::broker::{Fault, FaultView, LeaderView, NodeState, SharePartitionView, TransactionInspection};

impl Server {
    /// Returns all metrics in the text form that Prometheus reads.
    ///
    /// # Errors
    ///
    /// If the server has ended.
    pub fn metrics(&self) -> Result<String, ControlError> {
        let nodes = self.control().call(|desk| Ok(desk.broker().metrics()))?;
        render(nodes, self.control().meters.clone()).map_err(|_| ControlError::Ended)
    }

    /// Returns the clock that locks, sessions, transactions and retention follow.
    ///
    /// # Errors
    ///
    /// If the server has ended.
    pub fn clock(&self) -> Result<ClockView, ControlError> {
        self.control().call(control::view)
    }

    /// Holds that clock: no lock, session, membership, transaction or retention deadline passes until it is
    /// advanced or released. Waits of a request and of a connection run on.
    ///
    /// # Errors
    ///
    /// If the server has ended.
    pub fn hold_clock(&self) -> Result<ClockView, ControlError> {
        self.control().call(control::hold)
    }

    /// Moves the held clock forward, by a year at most; every deadline on the way passes, in order, before this
    /// returns. Where there are many, clients are served on the way.
    ///
    /// # Errors
    ///
    /// - `Conflict` if the clock is not held, or is released on the way.
    /// - `Invalid` for more than a year.
    /// - `Ended` if the server has ended.
    pub fn advance_clock(&self, by: Duration) -> Result<ClockView, ControlError> {
        let ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.control().advance_clock(ms)
    }

    /// Lets the clock go on from where it stands.
    ///
    /// # Errors
    ///
    /// If the server has ended.
    pub fn release_clock(&self) -> Result<ClockView, ControlError> {
        self.control().call(control::release)
    }

    /// Shows every record that the share partition of a group keeps track of: its state, its owner, how often it was
    /// delivered, what is left of its lock, the transaction that it waits for. Where nobody fetches, this is what the share
    /// coordinator stores.
    ///
    /// # Errors
    ///
    /// - `NotFound` if there is no such partition, or no state of it is stored for such a group.
    /// - `Ended` if the server has ended.
    pub fn share_partition(
        &self,
        group_id: &str,
        topic: &str,
        partition: i32,
    ) -> Result<SharePartitionView, ControlError> {
        let (group_id, topic) = (group_id.to_owned(), topic.to_owned());
        self.control().call(move |desk| control::share_partition(desk, &group_id, &topic, partition))
    }

    /// Shows every transactional id that a coordinator knows, in order.
    ///
    /// # Errors
    ///
    /// If the server has ended.
    pub fn transactions(&self) -> Result<Vec<TransactionInspection>, ControlError> {
        self.control().call(control::transactions)
    }

    /// Shows one transactional id.
    ///
    /// # Errors
    ///
    /// - `NotFound` if no coordinator knows it.
    /// - `Ended` if the server has ended.
    pub fn transaction(&self, transactional_id: &str) -> Result<TransactionInspection, ControlError> {
        let id = transactional_id.to_owned();
        self.control().call(move |desk| control::transaction(desk, &id))
    }

    /// Shows who leads each partition, internal topics included.
    ///
    /// # Errors
    ///
    /// If the server has ended.
    pub fn leaders(&self) -> Result<Vec<LeaderView>, ControlError> {
        self.control().call(control::leaders)
    }

    /// Shows the last requests with their answers, the newest last. They are kept where there is a control endpoint,
    /// a thousand of them.
    ///
    /// # Errors
    ///
    /// If the server has ended.
    pub fn requests(&self, last: usize) -> Result<Vec<RequestView>, ControlError> {
        self.control().call(move |desk| control::requests(desk, last))
    }

    /// Returns each node of the cluster, and how it is.
    ///
    /// # Errors
    ///
    /// If the server has ended.
    pub fn nodes(&self) -> Result<Vec<(NodeId, NodeState)>, ControlError> {
        self.control().call(control::nodes)
    }

    /// Stops a node: its listeners and connections close, another node leads what it led, in a new leader epoch, and
    /// what it kept in memory is gone: locks, sessions, coordinators, which are rebuilt from their logs.
    ///
    /// # Errors
    ///
    /// - `NotFound` if there is no such node.
    /// - `Conflict` if it does not run.
    /// - `Ended` if the server has ended.
    pub fn stop_node(&self, id: i32) -> Result<(), ControlError> {
        let control = self.control();
        control.wait_for(control.clone().stop_node(NodeId::new(id)))
    }

    /// Starts a stopped node again, at its old addresses. It leads nothing but what nobody else does.
    ///
    /// # Errors
    ///
    /// - `NotFound` if there is no such node.
    /// - `Conflict` if it runs, or somebody else has its address.
    /// - `Ended` if the server has ended.
    pub fn start_node(&self, id: i32) -> Result<(), ControlError> {
        let control = self.control();
        control.wait_for(control.clone().start_node(NodeId::new(id)))
    }

    /// Cuts a node off from the others: it goes on serving its clients with what it knows, and lets nothing be written,
    /// while others lead what it led.
    ///
    /// # Errors
    ///
    /// - `NotFound` if there is no such node.
    /// - `Conflict` if it does not run, is cut off already, or no other would be left to lead.
    /// - `Ended` if the server has ended.
    pub fn isolate_node(&self, id: i32) -> Result<(), ControlError> {
        self.control().call(move |desk| control::isolate_node(desk, NodeId::new(id)))
    }

    /// Connects a node again that was cut off: it learns who leads by now, and forgets what it led.
    ///
    /// # Errors
    ///
    /// - `NotFound` if there is no such node.
    /// - `Conflict` if it is not cut off.
    /// - `Ended` if the server has ended.
    pub fn rejoin_node(&self, id: i32) -> Result<(), ControlError> {
        self.control().call(move |desk| control::rejoin_node(desk, NodeId::new(id)))
    }

    /// Installs a fault and returns its number.
    ///
    /// # Errors
    ///
    /// - `Invalid` if the action makes no sense at that point.
    /// - `Conflict` if there are too many.
    /// - `Ended` if the server has ended.
    pub fn install_fault(&self, fault: Fault) -> Result<u64, ControlError> {
        self.control().call(move |desk| control::install_fault(desk, fault))
    }

    /// Shows the installed faults, with what they have met and what they hold.
    ///
    /// # Errors
    ///
    /// If the server has ended.
    pub fn faults(&self) -> Result<Vec<FaultView>, ControlError> {
        self.control().call(control::faults)
    }

    /// Deletes a fault; what it holds goes on before this returns.
    ///
    /// # Errors
    ///
    /// - `NotFound` if there is no such fault.
    /// - `Ended` if the server has ended.
    pub fn delete_fault(&self, id: u64) -> Result<(), ControlError> {
        self.control().call(move |desk| control::delete_faults(desk, Some(id)))
    }

    /// Deletes all faults; what they hold goes on before this returns.
    ///
    /// # Errors
    ///
    /// If the server has ended.
    pub fn delete_faults(&self) -> Result<(), ControlError> {
        self.control().call(|desk| control::delete_faults(desk, None))
    }
}
