//! Accepting connections, and how many there may be.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::Sender;
use sharemark_protocol::NodeId;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tracing::{debug, warn};

use super::listening::ListenerPlace;
use crate::broker::ConnectionId;
use crate::config::BrokerConfig;
use crate::shell::connection::{ListenerContext, serve};
use crate::shell::control::Control;
use crate::shell::meters::Meters;
use crate::shell::owner::Message;

/// How long accepting pauses when the process has no file left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A year, which stands for ever: timers end at about two.
const IDLE_MS_MAX: u64 = 365 * 86_400_000;

/// A listener of a node with its socket.
pub(super) struct Bound {
    pub(super) node: usize,
    pub(super) listener: usize,
    pub(super) socket: StdListener,
}

/// What the accepting tasks have in common.
#[derive(Clone, Debug)]
pub(super) struct Accept {
    inbox: Sender<Message>,
    meters: Meters,
    stopping: watch::Receiver<bool>,
    alive: mpsc::Sender<()>,
    next_connection: Arc<AtomicU64>,
    open: Arc<AtomicU64>,
    connections_max: u64,
    idle_max: Duration,
    frame_bytes_max: usize,
    decompressed_bytes_max: usize,
}

impl Accept {
    pub(super) fn new(
        config: &BrokerConfig,
        control: &Control,
        stopping: watch::Receiver<bool>,
        alive: mpsc::Sender<()>,
    ) -> Self {
        let settings = config.settings();
        let unsigned = |number: i64| u64::try_from(number).unwrap_or(u64::MAX);
        Self {
            inbox: control.inbox.clone(),
            meters: control.meters.clone(),
            stopping,
            alive,
            next_connection: Arc::default(),
            open: Arc::default(),
            connections_max: unsigned(settings.max_connections.into()),
            // A negative time means never, as does one too long to count.
            idle_max: Duration::from_millis(unsigned(settings.connections_max_idle_ms).min(IDLE_MS_MAX)),
            frame_bytes_max: usize::try_from(settings.socket_request_max_bytes).unwrap_or(0),
            decompressed_bytes_max: config.decompressed_bytes_max(),
        }
    }

    /// Returns what the connections of one listener have in common, until its node stops.
    pub(super) fn context(
        &self,
        node: NodeId,
        place: &ListenerPlace,
        node_stopped: watch::Receiver<bool>,
    ) -> ListenerContext {
        ListenerContext {
            node,
            listener: place.listener,
            inbox: self.inbox.clone(),
            meters: self.meters.of(node),
            stopping: self.stopping.clone(),
            node_stopped,
            idle_max: self.idle_max,
            frame_bytes_max: self.frame_bytes_max,
            decompressed_bytes_max: self.decompressed_bytes_max,
            apis: place.apis.clone(),
        }
    }

    pub(super) async fn accept(mut self, socket: TcpListener, context: ListenerContext) {
        let mut node_stopped = context.node_stopped.clone();
        loop {
            let accepted = tokio::select! {
                accepted = socket.accept() => accepted,
                _ = self.stopping.wait_for(|stopping| *stopping) => return,
                Ok(_) = node_stopped.wait_for(|stopped| *stopped) => return,
            };
            match accepted {
                Ok((stream, peer)) => self.serve(stream, peer, &context),
                Err(error) => {
                    warn!(%error, "a connection cannot be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr, context: &ListenerContext) {
        let open = Open::new(&self.open);
        if self.connections_max < open.count {
            debug!(%peer, "connection closed: there are max.connections already");
            return;
        }
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%peer, %error, "connection closed");
            return;
        }
        let id = ConnectionId(self.next_connection.fetch_add(1, Ordering::Relaxed));
        let host = format!("/{}", peer.ip().to_canonical()).into();
        let alive = self.alive.clone();
        let context = context.clone();
        tokio::spawn(async move {
            serve(stream, host, id, context).await;
            drop((open, alive));
        });
    }
}

/// Counts a connection as open for as long as it lives.
struct Open {
    all: Arc<AtomicU64>,
    count: u64,
}

impl Open {
    fn new(all: &Arc<AtomicU64>) -> Self {
        let count = all.fetch_add(1, Ordering::Relaxed) + 1;
        Self { all: all.clone(), count }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::Relaxed);
    }
}
