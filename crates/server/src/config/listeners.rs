//! Addresses: where nodes listen, and what clients are told.

use std::fmt;

/// A host and a port.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Endpoint {
    /// The host: a name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// One listener of a node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Listener {
    /// Its name, such as `PLAINTEXT`.
    pub name: String,
    /// Where it listens; port 0 before a free one is picked.
    pub listen: Endpoint,
    /// What clients are told; port 0 means the port it listens on.
    pub advertised: Endpoint,
}

/// What is wrong with `listeners` or what belongs to it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ListenerError {
    /// An entry is not of the form `NAME://host:port`.
    Malformed(String),
    /// A listener has no entry in `listener.security.protocol.map`.
    NoProtocol(String),
    /// A listener wants a protocol that is not built.
    NotBuilt(String, String),
    /// `advertised.listeners` names a listener that `listeners` lacks.
    NotListening(String),
    /// Two listeners have one name.
    NameTwice(String),
    /// Two listeners have one port.
    PortTwice(u16),
    /// The ports of the last nodes lie above 65535.
    PortTooHigh,
    /// All listeners belong to the controller.
    None,
}

impl fmt::Display for ListenerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(text) => write!(f, "{text:?} is not of the form NAME://HOST:PORT"),
            Self::NoProtocol(name) => {
                write!(f, "listener {name} has no entry in listener.security.protocol.map")
            }
            Self::NotBuilt(name, protocol) => {
                write!(f, "listener {name} wants {protocol}, which is not built yet")
            }
            Self::NotListening(name) => write!(f, "advertised.listeners names {name}, listeners does not"),
            Self::NameTwice(name) => write!(f, "two listeners are called {name}"),
            Self::PortTwice(port) => write!(f, "two listeners want port {port}"),
            Self::PortTooHigh => f.write_str("the nodes' successive ports end above 65535"),
            Self::None => f.write_str("no listener is left for clients"),
        }
    }
}

impl std::error::Error for ListenerError {}

/// The four properties that listeners are made of.
pub(super) struct ListenerProperties<'a> {
    pub(super) listeners: &'a [String],
    pub(super) advertised: &'a [String],
    pub(super) protocol_map: &'a str,
    pub(super) controller_names: &'a [String],
}

impl ListenerProperties<'_> {
    /// Returns the listeners of the first node.
    pub(super) fn read(&self) -> Result<Vec<Listener>, ListenerError> {
        let mut listeners: Vec<Listener> = Vec::new();
        for text in self.listeners {
            let (name, listen) = parse_listener(text)?;
            if self.controller_names.iter().any(|controller| controller.eq_ignore_ascii_case(&name)) {
                continue;
            }
            self.check_protocol(&name)?;
            if listeners.iter().any(|listener| listener.name == name) {
                return Err(ListenerError::NameTwice(name));
            }
            let advertised = Endpoint { host: default_advertised_host(&listen.host), port: 0 };
            listeners.push(Listener { name, listen, advertised });
        }
        for text in self.advertised {
            let (name, advertised) = parse_listener(text)?;
            let Some(listener) = listeners.iter_mut().find(|listener| listener.name == name) else {
                return Err(ListenerError::NotListening(name));
            };
            let host = default_advertised_host(&advertised.host);
            listener.advertised = Endpoint { host, port: advertised.port };
        }
        if listeners.is_empty() {
            return Err(ListenerError::None);
        }
        Ok(listeners)
    }

    fn check_protocol(&self, name: &str) -> Result<(), ListenerError> {
        let mut entries = self.protocol_map.split(',').filter_map(|entry| entry.trim().split_once(':'));
        match entries.find(|(listener, _)| listener.eq_ignore_ascii_case(name)) {
            Some((_, protocol)) if protocol.eq_ignore_ascii_case("PLAINTEXT") => Ok(()),
            Some((_, protocol)) => Err(ListenerError::NotBuilt(name.to_owned(), protocol.to_owned())),
            None => Err(ListenerError::NoProtocol(name.to_owned())),
        }
    }
}

/// Returns the listeners of the node that comes `index` after the first: on the ports that many further on.
pub(super) fn shifted(listeners: &[Listener], index: u16) -> Result<Vec<Listener>, ListenerError> {
    let shift = |port: u16| match port {
        0 => Ok(0),
        port => port.checked_add(index).ok_or(ListenerError::PortTooHigh),
    };
    listeners
        .iter()
        .map(|listener| {
            let mut listener = listener.clone();
            listener.listen.port = shift(listener.listen.port)?;
            listener.advertised.port = shift(listener.advertised.port)?;
            Ok(listener)
        })
        .collect()
}

fn parse_listener(text: &str) -> Result<(String, Endpoint), ListenerError> {
    let malformed = || ListenerError::Malformed(text.to_owned());
    let (name, address) = text.trim().split_once("://").ok_or_else(malformed)?;
    let (host, port) = split_host_port(address).ok_or_else(malformed)?;
    let port = port.ok_or_else(malformed)?;
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() || !name.bytes().all(legal) {
        return Err(malformed());
    }
    Ok((name.to_ascii_uppercase(), Endpoint { host: host.to_owned(), port }))
}

/// Splits `HOST[:PORT]`, where an IPv6 address stands in brackets.
pub fn split_host_port(text: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            if rest.is_empty() { (host, None) } else { (host, Some(rest.strip_prefix(':')?)) }
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => return None,
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    match port {
        None => Some((host, None)),
        Some(port) => Some((host, Some(port.parse().ok()?))),
    }
}

/// Returns the host to tell clients when the node listens on `host`: itself, or the local host's address for
/// those that stand for every address.
fn default_advertised_host(host: &str) -> String {
    match host {
        "" | "0.0.0.0" => "127.0.0.1".to_owned(),
        "::" => "::1".to_owned(),
        host => host.to_owned(),
    }
}
