//! The listeners of each node, which close when it stops and open again at the same addresses when it starts.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sharemark_protocol::NodeId;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::accept::Accept;
use crate::broker::ListenerId;
use crate::config::ListenerApis;

/// How long a node that starts waits for its address: a program that was started meanwhile may hold the socket until
/// it runs itself.
const BIND_MAX: Duration = Duration::from_secs(5);

/// How long it waits between two tries.
const BIND_PAUSE: Duration = Duration::from_millis(10);

/// One listener of a node, open or not.
#[derive(Clone, Debug)]
pub(super) struct ListenerPlace {
    pub(super) listener: ListenerId,
    pub(super) address: SocketAddr,
    /// What the numbers of APIs mean there.
    pub(super) apis: Arc<ListenerApis>,
}

/// The tasks of a node that runs.
#[derive(Debug)]
struct Open {
    /// Turns true when the node stops: its listeners and connections close.
    stopped: watch::Sender<bool>,
    accepting: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Places {
    accept: Accept,
    runtime: Handle,
    nodes: BTreeMap<NodeId, (Vec<ListenerPlace>, Option<Open>)>,
}

/// Opens and closes the listeners of nodes, until the server stops.
#[derive(Debug, Default)]
pub(in crate::shell) struct Listening {
    places: Mutex<Option<Places>>,
}

impl Listening {
    /// Begins to accept connections, with sockets that are open already.
    pub(super) fn begin(
        &self,
        accept: Accept,
        runtime: Handle,
        sockets: Vec<(NodeId, ListenerPlace, StdListener)>,
    ) -> io::Result<()> {
        let mut places = Places { accept, runtime, nodes: BTreeMap::new() };
        let mut by_node: BTreeMap<NodeId, Vec<(ListenerPlace, StdListener)>> = BTreeMap::new();
        for (node, place, socket) in sockets {
            by_node.entry(node).or_default().push((place, socket));
        }
        for (node, sockets) in by_node {
            let listeners = sockets.iter().map(|(place, _)| place.clone()).collect();
            let open = places.open(node, sockets)?;
            places.nodes.insert(node, (listeners, Some(open)));
        }
        *self.lock() = Some(places);
        Ok(())
    }

    /// Closes the listeners and connections of a node; what is returned is done once the listeners are closed.
    pub(in crate::shell) fn close(&self, node: NodeId) -> Vec<JoinHandle<()>> {
        let mut places = self.lock();
        let found = places.as_mut().and_then(|places| places.nodes.get_mut(&node));
        let Some(open) = found.and_then(|(_, open)| open.take()) else { return Vec::new() };
        open.stopped.send_replace(true);
        open.accepting
    }

    /// Takes the addresses of a node that is to start.
    ///
    /// # Errors
    ///
    /// If somebody else has one of them.
    pub(in crate::shell) fn bind(&self, node: NodeId) -> io::Result<Vec<StdListener>> {
        let found = self.lock();
        let places = found.as_ref().and_then(|places| places.nodes.get(&node));
        let addresses: Vec<SocketAddr> =
            places.map_or_else(Vec::new, |(places, _)| places.iter().map(|it| it.address).collect());
        drop(found);
        let end = Instant::now() + BIND_MAX;
        let mut sockets = Vec::new();
        for address in addresses {
            let socket = loop {
                match StdListener::bind(address) {
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < end => {
                        std::thread::sleep(BIND_PAUSE);
                    }
                    other => break other?,
                }
            };
            socket.set_nonblocking(true)?;
            sockets.push(socket);
        }
        Ok(sockets)
    }

    /// Accepts connections for a node that has started, on the sockets that it has bound.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub(in crate::shell) fn open(&self, node: NodeId, sockets: Vec<StdListener>) -> io::Result<()> {
        let mut found = self.lock();
        let Some(places) = found.as_mut() else { return Ok(()) }; // The server stops.
        let Some((listeners, _)) = places.nodes.get(&node) else { return Ok(()) };
        let sockets = listeners.iter().cloned().zip(sockets).collect();
        let open = places.open(node, sockets)?;
        if let Some((_, closed)) = places.nodes.get_mut(&node) {
            *closed = Some(open);
        }
        Ok(())
    }

    /// Lets go of everything: the server stops.
    pub(super) fn end(&self) {
        *self.lock() = None;
    }

    /// Returns where tasks of this server run.
    pub(in crate::shell) fn runtime(&self) -> Option<Handle> {
        self.lock().as_ref().map(|places| places.runtime.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Places>> {
        // Nothing here is left half done.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn open(&self, node: NodeId, sockets: Vec<(ListenerPlace, StdListener)>) -> io::Result<Open> {
        let _inside = self.runtime.enter();
        let (stopped, stopped_seen) = watch::channel(false);
        let mut accepting = Vec::new();
        for (place, socket) in sockets {
            let socket = TcpListener::from_std(socket)?;
            let context = self.accept.context(node, &place, stopped_seen.clone());
            accepting.push(self.runtime.spawn(self.accept.clone().accept(socket, context)));
        }
        Ok(Open { stopped, accepting })
    }
}
