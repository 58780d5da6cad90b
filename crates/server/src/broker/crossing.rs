//! Calls from one node to another: the seams of the cluster.
//!
//! In Kafka each of these is a request between brokers. Here a handler only queues it; [`Broker::settle`] carries
//! it out later in the same step, at the node it is meant for, and hands the outcome to the function that goes on
//! from there. Nothing that a crossing concerns may be decided between the two: it is *in transition*.

use sharemark_protocol::NodeId;

use super::Broker;
use super::input::Now;

/// A call from a node to another, or to itself.
#[derive(Debug)]
pub(super) struct Crossing {
    /// The node that calls, and goes on with the outcome.
    pub(super) from: NodeId,
    /// The node that is called.
    pub(super) to: NodeId,
    /// What is asked, and what is done with the outcome.
    pub(super) call: Call,
}

/// What is asked of another node. One variant a seam.
#[derive(Debug)]
pub(super) enum Call {}

impl Broker {
    /// Carries out a crossing: asks the node it is meant for, and goes on with the outcome at the one that called.
    pub(super) fn carry_out(&mut self, _now: Now, crossing: Crossing) {
        match crossing.call {}
    }
}
