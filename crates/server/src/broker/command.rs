//! What a test does to the broker beside sending it requests: the other way in, through which replay goes too.

use sharemark_protocol::NodeId;

use super::Broker;
use super::faults::{Fault, FaultProblem};
use super::input::Now;
use super::nodes::NodeProblem;

/// Something that is done to the broker from outside and is no request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Command {
    /// A fault is installed; its number is the outcome.
    InstallFault(Box<Fault>),
    /// A fault is deleted; what it holds goes on.
    DeleteFault(u64),
    /// All faults are deleted; what they hold goes on.
    DeleteFaults,
    /// A node stops.
    StopNode(NodeId),
    /// A node starts.
    StartNode(NodeId),
    /// A node is cut off from the others.
    IsolateNode(NodeId),
    /// A node is connected again that was cut off.
    RejoinNode(NodeId),
}

/// Why a command is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CommandProblem {
    /// It is about a fault.
    Fault(FaultProblem),
    /// It is about a node.
    Node(NodeProblem),
}

impl From<FaultProblem> for CommandProblem {
    fn from(problem: FaultProblem) -> Self {
        Self::Fault(problem)
    }
}

impl From<NodeProblem> for CommandProblem {
    fn from(problem: NodeProblem) -> Self {
        Self::Node(problem)
    }
}

impl Broker {
    /// Carries out a command completely; returns the number of a fault that it installed.
    ///
    /// # Errors
    ///
    /// As the function for that command; nothing has changed then.
    pub fn handle_command(&mut self, now: Now, command: Command) -> Result<Option<u64>, CommandProblem> {
        match command {
            Command::InstallFault(fault) => return Ok(Some(self.install_fault(*fault)?)),
            Command::DeleteFault(id) => self.delete_fault(now, id)?,
            Command::DeleteFaults => self.delete_faults(now),
            Command::StopNode(id) => self.stop_node(now, id)?,
            Command::StartNode(id) => self.start_node(now, id)?,
            Command::IsolateNode(id) => self.isolate_node(now, id)?,
            Command::RejoinNode(id) => self.rejoin_node(now, id)?,
        }
        Ok(None)
    }
}
