//! Calls from one node to another: the seams of the cluster.
//!
//! In Kafka each of these is a request between brokers. Here a handler only queues it; [`Broker::settle`] carries
//! it out later in the same step, at the node it is meant for, and hands the outcome to the function that goes on
//! from there. Nothing that a crossing concerns may be decided between the two: it is *in transition*.

use sharemark_group_coordinator::InitialiseShareStates;
use sharemark_protocol::{NodeId, SharePartitionKey};

use super::Broker;
use super::input::Now;
use super::operations::OperationId;

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

/// What is asked of another node, and what it takes to go on with the outcome. One variant a seam.
#[derive(Debug)]
pub(super) enum Call {
    /// Group coordinator to share coordinator: initialise share partitions (`share.state.init`).
    InitialiseShareStates(InitialiseShareStates),
    /// Group coordinator to share coordinator: tell stored states in short (`share.state.summary`).
    SummariseShareStates {
        /// The share partitions.
        keys: Vec<SharePartitionKey>,
        /// The request that wants to know.
        then: OperationId,
    },
}

impl Broker {
    /// Carries out a crossing: asks the node it is meant for, and goes on with the outcome at the one that called.
    pub(super) fn carry_out(&mut self, now: Now, crossing: Crossing) {
        let Crossing { from, to, call } = crossing;
        match call {
            Call::InitialiseShareStates(states) => {
                let (done, failed) = self.initialise_share_states(now, to, &states);
                self.complete_initialise(now, from, &states.group_id, &done, &failed);
            }
            Call::SummariseShareStates { keys, then } => {
                let summaries = self.summarise_share_states(to, keys);
                self.complete_summaries(from, then, summaries);
            }
        }
    }
}
