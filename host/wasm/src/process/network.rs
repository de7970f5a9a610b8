//! Where the connections of a process go.
//!
//! A process has no network of its own: the host decides where each connection ends. Its own
//! addresses (loopback) are the exception. They lead to its own listeners, because programs dial
//! themselves: controller-runtime's webhook server does, to see whether it is ready.

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

use super::errno::Errno;

/// The longest host name, in bytes (RFC 1035).
const MAX_NAME: usize = 253;

/// The longest `host:port`, in bytes.
pub(super) const MAX_ADDRESS: u32 = 320;

/// A stream of bytes in both directions, such as [`Pipe`](super::Pipe) or tokio's `TcpStream`. What
/// `poll_write` takes must reach the peer without a flush, and `poll_shutdown` must do its work at
/// once: the process never flushes, and polls a shutdown only once.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Where a process wants to connect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Destination {
    /// The host.
    pub host: Host,
    /// The port.
    pub port: u16,
}

/// A host by name or by address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name, as the program spelled it, without a dot at its end.
    Name(String),
    /// An address. IPv4-mapped IPv6 addresses are IPv4 addresses.
    Address(IpAddr),
}

/// Connects processes with the world. Dropping a future abandons the attempt.
#[async_trait]
pub trait Network: Send + Sync {
    /// Connects, or says why not: `PermissionDenied`, `ConnectionRefused`, `TimedOut`,
    /// `HostUnreachable` and others reach the program as the error of its `connect`.
    async fn connect(&self, to: &Destination) -> io::Result<Box<dyn Stream>>;

    /// Looks up a name. `NotFound` means that there is no such host; any other error is temporary.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Destination {
    /// Reads `host:port`, with IPv6 addresses in brackets. An empty host is this process.
    pub(super) fn parse(text: &str) -> Result<Self, Errno> {
        let (host, port) = text.rsplit_once(':').ok_or(Errno::INVAL)?;
        let port = port.parse().map_err(|_| Errno::INVAL)?;

        let host = match host.strip_prefix('[') {
            Some(host) => {
                let address: Ipv6Addr = host
                    .strip_suffix(']')
                    .and_then(|host| host.parse().ok())
                    .ok_or(Errno::INVAL)?;
                Host::Address(IpAddr::V6(address).to_canonical())
            }
            // An IPv6 address without brackets.
            None if host.contains(':') => return Err(Errno::INVAL),
            None if host.is_empty() => Host::Address(Ipv4Addr::LOCALHOST.into()),
            None => Host::parse(host)?,
        };
        Ok(Self { host, port })
    }

    /// Reports whether this is the process itself, with this address.
    pub(super) fn is_own(&self, own: IpAddr) -> bool {
        match &self.host {
            Host::Name(name) => is_localhost(name),
            Host::Address(address) => {
                address.is_loopback() || address.is_unspecified() || *address == own
            }
        }
    }

    /// The address as the program sees it. A name that the host resolves has none.
    pub(super) fn address(&self) -> SocketAddr {
        let address = match &self.host {
            Host::Name(_) => Ipv4Addr::UNSPECIFIED.into(),
            Host::Address(address) => *address,
        };
        SocketAddr::new(address, self.port)
    }
}

impl Host {
    /// Reads a name or an address.
    pub(super) fn parse(text: &str) -> Result<Self, Errno> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Address(address.to_canonical()));
        }

        let name = text.strip_suffix('.').unwrap_or(text);
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_valid) {
            return Err(Errno::INVAL);
        }
        Ok(Self::Name(name.to_owned()))
    }
}

pub(super) fn is_localhost(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost")
}

/// The 18 bytes of an address in the guest's memory: 16 of IPv6, and the port, big endian.
pub(super) fn address_bytes(address: SocketAddr) -> [u8; 18] {
    let mut bytes = [0; 18];
    bytes[..16].copy_from_slice(&ip_bytes(address.ip()));
    bytes[16..].copy_from_slice(&address.port().to_be_bytes());
    bytes
}

/// The 16 bytes of an address, IPv4 mapped.
pub(super) fn ip_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let own = "10.0.0.7".parse().expect("an address");
        for (text, display, is_own) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("[::1]:8080", "[::1]:8080", true),
            ("[::ffff:10.1.2.3]:1", "10.1.2.3:1", false),
            (":9443", "127.0.0.1:9443", true),
            ("0.0.0.0:1", "0.0.0.0:1", true),
            ("10.0.0.7:65535", "10.0.0.7:65535", true),
            ("LocalHost:1", "LocalHost:1", true),
            (
                "kubernetes.default.svc.:443",
                "kubernetes.default.svc:443",
                false,
            ),
        ] {
            let parsed = Destination::parse(text).expect(text);
            assert_eq!(
                (&*parsed.to_string(), parsed.is_own(own)),
                (display, is_own)
            );
        }
    }

    #[test]
    fn invalid_addresses_are_refused() {
        let long = format!("{}:1", "a".repeat(254));
        for text in [
            "",
            "80",
            "a:",
            "a:65536",
            "a:-1",
            "[::1:80",
            "[127.0.0.1]:80",
            "::1:80",
            "a b:1",
            "a/b:1",
            &long,
            ".:1",
        ] {
            assert_eq!(Destination::parse(text), Err(Errno::INVAL), "{text}");
        }
    }
}
