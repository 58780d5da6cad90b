//! The verbs of nodes.

use sharemark_protocol::NodeId;
use tokio::task::JoinHandle;

use super::{Control, ControlError};
use crate::broker::{Command, NodeProblem, NodeState};
use crate::shell::desk::Desk;

impl From<NodeProblem> for ControlError {
    fn from(problem: NodeProblem) -> Self {
        match problem {
            NodeProblem::Unknown => Self::NotFound("there is no such node".to_owned()),
            NodeProblem::Stopped => Self::Conflict("the node is stopped".to_owned()),
            NodeProblem::Running => Self::Conflict("the node runs".to_owned()),
            NodeProblem::Isolated => Self::Conflict("the node is cut off".to_owned()),
            NodeProblem::Connected => Self::Conflict("the node is not cut off".to_owned()),
            NodeProblem::Alone => Self::Conflict("no other node would lead".to_owned()),
        }
    }
}

/// Shows each node and how it is.
pub(in crate::shell) fn nodes(desk: &mut dyn Desk) -> Result<Vec<(NodeId, NodeState)>, ControlError> {
    Ok(desk.broker().inspect_nodes())
}

/// Cuts a node off from the others. Its sockets stay open.
pub(in crate::shell) fn isolate_node(desk: &mut dyn Desk, id: NodeId) -> Result<(), ControlError> {
    desk.command(Command::IsolateNode(id))?;
    Ok(())
}

/// Connects a node again that was cut off.
pub(in crate::shell) fn rejoin_node(desk: &mut dyn Desk, id: NodeId) -> Result<(), ControlError> {
    desk.command(Command::RejoinNode(id))?;
    Ok(())
}

impl Control {
    /// Stops a node: first for the core, so that nothing more is answered, then its sockets.
    pub(in crate::shell) async fn stop_node(self, id: NodeId) -> Result<(), ControlError> {
        self.call_from_task(move |desk: &mut dyn Desk| Ok(desk.command(Command::StopNode(id))?)).await?;
        for accepting in self.listening.close(id) {
            closed(accepting).await;
        }
        Ok(())
    }

    /// Starts a node: first its sockets, so that it is there when it leads.
    pub(in crate::shell) async fn start_node(self, id: NodeId) -> Result<(), ControlError> {
        let all = self.call_from_task(nodes).await?;
        match all.iter().find(|(node, _)| *node == id) {
            None => return Err(NodeProblem::Unknown.into()),
            Some((_, NodeState::Running | NodeState::Isolated)) => return Err(NodeProblem::Running.into()),
            Some((_, NodeState::Stopped)) => {}
        }
        let listening = self.listening.clone();
        let bound = tokio::task::spawn_blocking(move || listening.bind(id)).await;
        let sockets = bound
            .map_err(|_| ControlError::Ended)?
            .map_err(|error| ControlError::Conflict(format!("the node's address cannot be used: {error}")))?;
        self.call_from_task(move |desk: &mut dyn Desk| Ok(desk.command(Command::StartNode(id))?)).await?;
        let opened = self.listening.open(id, sockets);
        opened.map_err(|error| ControlError::Conflict(format!("the node cannot listen: {error}")))
    }

    /// Has a task of the server do something, and waits for it on this thread, which is none of the server's.
    pub(in crate::shell) fn wait_for<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T, ControlError>> + Send + 'static,
    ) -> Result<T, ControlError> {
        let runtime = self.listening.runtime().ok_or(ControlError::Ended)?;
        let (reply, outcome) = crossbeam_channel::bounded(1);
        runtime.spawn(async move { drop(reply.send(task.await)) });
        outcome.recv().map_err(|_| ControlError::Ended)?
    }
}

/// Waits until a listener is closed.
async fn closed(accepting: JoinHandle<()>) {
    // An error means that its task has panicked or was cut off: it is closed all the same.
    drop(accepting.await);
}
