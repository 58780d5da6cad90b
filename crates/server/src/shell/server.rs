//! A running broker: its listeners, its owner thread, and how it is stopped.

mod accept;
mod listening;

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};
use sharemark_log::Memory;
use sharemark_protocol::NodeId;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};
use tracing::warn;

use super::clock::Clock;
use super::control::{self, Control};
use super::journal::Recorder;
use super::machine;
use super::meters::Meters;
use super::owner::{self, Message, OwnerError};
use super::requests::RequestLog;
use crate::broker::{Broker, ListenerId};
use crate::config::{BrokerConfig, BuildError, ConfigBuilder, Endpoint};
use accept::{Accept, Bound};
use listening::ListenerPlace;
pub(super) use listening::Listening;

/// How many messages may wait for the owner; a task with one more waits for room.
const INBOX_MESSAGES_MAX: usize = 1024;

/// The threads that connection tasks run on.
const IO_THREADS: usize = 2;

/// The stack of each of these threads: decoding does not recurse deeply.
const IO_STACK_BYTES: usize = 1024 * 1024;

/// How long a stopping server lets connections write what was answered.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// Why a server could not start, or ended.
#[derive(Debug)]
pub enum ServerError {
    /// The configuration is wrong.
    Config(BuildError),
    /// An address cannot be listened on.
    Listen {
        /// The address.
        address: String,
        /// Why.
        error: io::Error,
    },
    /// The journal cannot be begun.
    Journal {
        /// Its file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The system refused a thread or a socket.
    System(io::Error),
    /// The storage failed.
    Storage(String),
    /// The core found itself in the wrong, and would rather end than answer wrongly.
    Core(String),
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Listen { address, error } => write!(f, "cannot listen on {address}: {error}"),
            Self::Journal { path, error } => {
                write!(f, "the journal {} cannot be written: {error}", path.display())
            }
            Self::System(error) => write!(f, "the system refused a thread or a socket: {error}"),
            Self::Storage(text) | Self::Core(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ServerError {}

impl From<OwnerError> for ServerError {
    fn from(error: OwnerError) -> Self {
        let text = error.to_string();
        match error {
            OwnerError::Storage(_) => Self::Storage(text),
            OwnerError::Panic { .. } => Self::Core(text),
        }
    }
}

/// Where one node listens.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NodeAddresses {
    /// The node.
    pub id: NodeId,
    /// Its listeners, each by name, in the order of the configuration.
    pub listeners: Vec<(String, SocketAddr)>,
}

/// Collects the configuration of a server to be embedded; ports are free ones unless said otherwise.
///
/// ```
/// use std::time::Duration;
///
/// let server = sharemark::Server::builder().config(|config| config.brokers(3).topic("orders:6")).start()?;
/// // Real clients connect to `server.bootstrap()`; the program has the clock and the inner state in its hands.
/// assert_eq!(server.bootstrap().split(',').count(), 3);
/// let held = server.hold_clock()?;
/// assert_eq!(server.advance_clock(Duration::from_secs(30))?.now_ms, held.now_ms + 30_000);
/// server.release_clock()?;
/// let leaders = server.leaders()?;
/// assert_eq!(leaders.iter().filter(|partition| &*partition.topic == "orders").count(), 6);
/// assert!(server.transactions()?.is_empty());
/// server.stop()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ServerBuilder {
    config: ConfigBuilder,
    control: Option<String>,
    journal: Option<PathBuf>,
}

impl ServerBuilder {
    /// Changes the configuration: `builder.config(|config| config.brokers(3).topic("orders:6"))`.
    #[must_use]
    pub fn config(mut self, change: impl FnOnce(ConfigBuilder) -> ConfigBuilder) -> Self {
        self.config = change(self.config);
        self
    }

    /// Opens the control endpoint at `HOST:PORT`; port 0 picks a free one.
    #[must_use]
    pub fn control(mut self, address: impl Into<String>) -> Self {
        self.control = Some(address.into());
        self
    }

    /// Writes all that enters the core, and what it answers, into a file, in place of what that held; the command
    /// `sharemark replay` runs it again.
    #[must_use]
    pub fn journal(mut self, path: impl Into<PathBuf>) -> Self {
        self.journal = Some(path.into());
        self
    }

    /// Starts the server. Properties that are not known are logged.
    ///
    /// # Errors
    ///
    /// If the configuration is wrong, or an address cannot be listened on, or the journal not be written.
    pub fn start(self) -> Result<Server, ServerError> {
        let mut unknown = Vec::new();
        let config = self.config.build(&mut unknown).map_err(ServerError::Config)?;
        for name in unknown {
            warn!(name, "no property is called that");
        }
        Server::start_with(config, self.control.as_deref(), self.journal.as_deref())
    }
}

/// A running broker. Dropping it stops it; nothing it does ends the process.
#[derive(Debug)]
pub struct Server {
    addresses: Vec<NodeAddresses>,
    bootstrap: String,
    control_address: Option<SocketAddr>,
    control: Control,
    inbox: Sender<Message>,
    stopping: watch::Sender<bool>,
    /// Closes when the last connection has ended.
    connections: mpsc::Receiver<()>,
    /// Tells how the owner ended.
    ended: watch::Receiver<bool>,
    owner: Option<JoinHandle<Result<(), OwnerError>>>,
    runtime: Option<Runtime>,
}

impl Server {
    /// Starts a configuration to be embedded: one node on a free port of the local host.
    pub fn builder() -> ServerBuilder {
        let config = BrokerConfig::builder()
            // As a property, so that a program may set its own; `listen` would go before it.
            .property("listeners", "PLAINTEXT://127.0.0.1:0")
            .seed(machine::fresh_seed())
            .memory_limit_bytes(machine::quarter_of_memory());
        ServerBuilder { config, control: None, journal: None }
    }

    /// Starts a server: when this returns, it listens and answers.
    ///
    /// # Errors
    ///
    /// If an address cannot be listened on, or the system refuses a thread.
    pub fn start(config: BrokerConfig) -> Result<Self, ServerError> {
        Self::start_with(config, None, None)
    }

    /// Starts a server with its control endpoint, if an address is given, and a journal, if a file is.
    pub(super) fn start_with(
        mut config: BrokerConfig,
        control_address: Option<&str>,
        journal: Option<&Path>,
    ) -> Result<Self, ServerError> {
        let listeners = bind(&mut config)?;
        let control_listener = control_address.map(bind_control).transpose()?;
        let mut journal = journal.map(begin_journal).transpose()?;
        let addresses = addresses(&config, &listeners);
        let bootstrap = bootstrap(&addresses);
        let runtime = Builder::new_multi_thread()
            .worker_threads(IO_THREADS)
            .thread_stack_size(IO_STACK_BYTES)
            .thread_name("sharemark-io")
            .enable_all()
            .build()
            .map_err(ServerError::System)?;
        let (inbox, from_tasks) = bounded(INBOX_MESSAGES_MAX);
        let (stopping, stopping_seen) = watch::channel(false);
        let (alive, connections) = mpsc::channel(1);
        let control = Control {
            inbox: inbox.clone(),
            meters: Meters::new(config.nodes.iter().map(|node| node.id)),
            listening: Arc::default(),
        };
        let control_address = match control_listener {
            Some(listener) => Some(serve_control(&runtime, listener, &control, &stopping_seen)?),
            None => None,
        };
        let accept = Accept::new(&config, &control, stopping_seen, alive);
        let places = places(&config, listeners)?;
        let begun = control.listening.begin(accept, runtime.handle().clone(), places);
        begun.map_err(ServerError::System)?;
        let requests = RequestLog::new(control_address.is_some());
        let (has_ended, ended) = watch::channel(false);
        let owner = thread::Builder::new()
            .name("sharemark-owner".to_owned())
            .spawn(move || {
                let mut clock = Clock::new();
                let now = clock.now();
                if let Some(journal) = &mut journal {
                    journal.start(now, &config);
                }
                let broker = Broker::new(config, now);
                let outcome = owner::run(broker, clock, &from_tasks, Memory::default(), requests, journal);
                has_ended.send_replace(true);
                outcome
            })
            .map_err(ServerError::System)?;
        Ok(Self {
            addresses,
            bootstrap,
            control_address,
            control,
            inbox,
            stopping,
            connections,
            ended,
            owner: Some(owner),
            runtime: Some(runtime),
        })
    }

    /// Returns where each node listens.
    pub fn addresses(&self) -> &[NodeAddresses] {
        &self.addresses
    }

    /// Returns the first listener of each node as clients of this machine take it: `HOST:PORT,HOST:PORT`.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Returns where the control endpoint listens, if there is one.
    pub fn control_address(&self) -> Option<SocketAddr> {
        self.control_address
    }

    pub(super) fn control(&self) -> &Control {
        &self.control
    }

    /// Stops the server: accepts no more, finishes what it has taken, and closes all connections.
    ///
    /// # Errors
    ///
    /// If it had ended by itself before.
    pub fn stop(mut self) -> Result<(), ServerError> {
        self.shut_down()
    }

    /// Returns what `make` makes inside the server's runtime, which signals and timers belong to.
    pub(super) fn inside<T>(&self, make: impl FnOnce() -> T) -> T {
        let _inside = self.runtime.as_ref().map(Runtime::enter);
        make()
    }

    /// Waits until the server ends by itself, which it does only when something is wrong, or until `signal`
    /// is ready; then stops it.
    ///
    /// # Errors
    ///
    /// If it ended by itself.
    pub(super) fn run_until(mut self, signal: impl Future<Output = ()>) -> Result<(), ServerError> {
        let mut ended = self.ended.clone();
        if let Some(runtime) = &self.runtime {
            runtime.block_on(async {
                tokio::select! {
                    () = signal => {}
                    _ = ended.wait_for(|ended| *ended) => {}
                }
            });
        }
        self.shut_down()
    }

    fn shut_down(&mut self) -> Result<(), ServerError> {
        self.stopping.send_replace(true);
        self.control.listening.end();
        // An error means that the owner has ended already.
        drop(self.inbox.send(Message::Stop));
        let outcome = match self.owner.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome.map_err(ServerError::from),
            Some(Err(_)) => Err(ServerError::Core("the owner thread failed at its start".to_owned())),
            None => Ok(()),
        };
        if let Some(runtime) = self.runtime.take() {
            let connections = &mut self.connections;
            runtime.block_on(async {
                // Nothing is ever sent: this ends with the last connection.
                drop(tokio::time::timeout(STOP_GRACE, connections.recv()).await);
            });
            runtime.shutdown_background();
        }
        outcome
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.shut_down() {
            warn!(%error, "the server had ended");
        }
    }
}

/// Opens all listeners, and writes the ports that were picked into `config`.
fn bind(config: &mut BrokerConfig) -> Result<Vec<Bound>, ServerError> {
    let mut bound = Vec::new();
    for (node_index, node) in config.nodes.iter_mut().enumerate() {
        for (listener_index, listener) in node.listeners.iter_mut().enumerate() {
            let host = if listener.listen.host.is_empty() { "0.0.0.0" } else { &listener.listen.host };
            let refused = |error| ServerError::Listen { address: listener.listen.to_string(), error };
            let socket = StdListener::bind((host, listener.listen.port)).map_err(refused)?;
            socket.set_nonblocking(true).map_err(ServerError::System)?;
            let port = socket.local_addr().map_err(ServerError::System)?.port();
            listener.listen.port = port;
            if listener.advertised.port == 0 {
                listener.advertised.port = port;
            }
            bound.push(Bound { node: node_index, listener: listener_index, socket });
        }
    }
    Ok(bound)
}

/// Returns each open socket with the node and the listener that it belongs to.
fn places(
    config: &BrokerConfig,
    bound: Vec<Bound>,
) -> Result<Vec<(NodeId, ListenerPlace, StdListener)>, ServerError> {
    let mut places = Vec::new();
    for Bound { node, listener, socket } in bound {
        let node = &config.nodes[node];
        let place = ListenerPlace {
            listener: ListenerId(u16::try_from(listener).unwrap_or(u16::MAX)),
            address: socket.local_addr().map_err(ServerError::System)?,
            apis: Arc::new(config.listener_apis(&node.listeners[listener].name)),
        };
        places.push((node.id, place, socket));
    }
    Ok(places)
}

fn begin_journal(path: &Path) -> Result<Recorder, ServerError> {
    Recorder::create(path).map_err(|error| ServerError::Journal { path: path.to_owned(), error })
}

fn bind_control(address: &str) -> Result<StdListener, ServerError> {
    let refused = |error| ServerError::Listen { address: address.to_owned(), error };
    let listener = StdListener::bind(address).map_err(refused)?;
    listener.set_nonblocking(true).map_err(ServerError::System)?;
    Ok(listener)
}

fn serve_control(
    runtime: &Runtime,
    listener: StdListener,
    control: &Control,
    stopping: &watch::Receiver<bool>,
) -> Result<SocketAddr, ServerError> {
    let _inside = runtime.enter();
    let address = listener.local_addr().map_err(ServerError::System)?;
    let listener = TcpListener::from_std(listener).map_err(ServerError::System)?;
    runtime.spawn(control::serve(listener, control.clone(), stopping.clone()));
    Ok(address)
}

fn addresses(config: &BrokerConfig, bound: &[Bound]) -> Vec<NodeAddresses> {
    let of_node = |index: usize| {
        let own = bound.iter().filter(move |bound| bound.node == index);
        let address = |bound: &Bound| {
            let name = config.nodes[bound.node].listeners[bound.listener].name.clone();
            bound.socket.local_addr().ok().map(|address| (name, address))
        };
        own.filter_map(address).collect()
    };
    let nodes = config.nodes.iter().enumerate();
    nodes.map(|(index, node)| NodeAddresses { id: node.id, listeners: of_node(index) }).collect()
}

fn bootstrap(addresses: &[NodeAddresses]) -> String {
    let first = addresses.iter().filter_map(|node| node.listeners.first());
    let shown = first.map(|(_, address)| {
        // An address that stands for all others is reached through the local host's.
        let host = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            IpAddr::V4(ip) => IpAddr::V4(ip),
            IpAddr::V6(ip) => IpAddr::V6(ip),
        };
        let host = host.to_string();
        Endpoint { host, port: address.port() }.to_string()
    });
    shown.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
