//! Limits the connections to the endpoints that anybody can reach.
//!
//! A newcomer always gets in: when there are too many, the oldest connection is closed of the
//! address that has most of those on which nobody has authenticated yet. So an address that takes
//! what it can get only loses connections of its own, and neither Prometheus nor the kubelet has to
//! wait for it. Connections of users who authenticated are not closed, except beyond a user's share
//! and a reserve for newcomers.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    http::{HeaderMap, HeaderValue, Request},
    serve::Listener,
};
use axum_server::{accept::Accept, tls_rustls::RustlsAcceptor};
use futures::{FutureExt, future::BoxFuture};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::oneshot,
};
use tower::Service;

use super::shares;

/// The request header with the network of the client, from [`network`]. It replaces what a client
/// sends under this name.
const NETWORK: &str = "x-operetta-network";

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of all clients together.
    pub at_once: usize,
    /// Of one address, before anybody authenticates on them.
    pub of_address: usize,
    /// Of one user.
    pub of_user: usize,
    /// How many of `at_once` users can't keep from newcomers.
    pub reserve: usize,
}

impl Limits {
    /// The limits of the endpoints for users.
    pub const USERS: Self = Self {
        at_once: 1_024,
        of_address: 64,
        of_user: 128,
        reserve: 256,
    };

    /// The limits of the probes, on which nobody authenticates.
    pub const PROBES: Self = Self {
        at_once: 128,
        of_address: 16,
        of_user: 0,
        reserve: 128,
    };
}

/// The open connections of a listener.
#[derive(Clone)]
pub struct Connections {
    limits: Limits,
    open: Arc<Mutex<Open>>,
}

#[derive(Default)]
struct Open {
    /// The number of connections so far: the key of the next one.
    opened: u64,
    /// By age.
    by_age: BTreeMap<u64, Connection>,
}

struct Connection {
    network: IpAddr,
    /// Who authenticated on it, if the connection counts towards the user's share.
    user: Option<String>,
    /// Dropping this closes the connection.
    _close: oneshot::Sender<()>,
}

impl Connections {
    /// Creates an empty table.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            open: Arc::default(),
        }
    }

    /// Adds a connection, and closes another one if there are too many.
    fn add(&self, stream: TcpStream, from: IpAddr) -> Bounded {
        let network = network(from);
        let (close, closed) = oneshot::channel();
        let mut open = self.open.lock();
        if let Some(age) = open.surplus(network, &self.limits) {
            open.by_age.remove(&age);
        }

        let age = open.opened;
        open.opened += 1;
        let connection = Connection {
            network,
            user: None,
            _close: close,
        };
        open.by_age.insert(age, connection);
        Bounded {
            stream,
            closed,
            is_closed: false,
            place: Place {
                connections: self.clone(),
                age,
            },
        }
    }

    #[cfg(test)]
    fn count(&self) -> usize {
        self.open.lock().by_age.len()
    }
}

impl Open {
    /// Returns the connection to close before one from this network is added, if any.
    fn surplus(&self, network: IpAddr, limits: &Limits) -> Option<u64> {
        // Of each network, how many there are and which one is the oldest.
        let mut strangers = HashMap::<IpAddr, (usize, u64)>::new();
        for (age, connection) in &self.by_age {
            if connection.user.is_none() {
                strangers.entry(connection.network).or_insert((0, *age)).0 += 1;
            }
        }

        if let Some((number, oldest)) = strangers.get(&network)
            && *number >= limits.of_address
        {
            return Some(*oldest);
        }
        if self.by_age.len() < limits.at_once {
            return None;
        }
        let most = strangers
            .values()
            .max_by_key(|(number, oldest)| (*number, Reverse(*oldest)));
        most.map(|(_, oldest)| *oldest)
    }
}

/// The place of a connection among the others. Dropping it makes room.
struct Place {
    connections: Connections,
    age: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.open.lock().by_age.remove(&self.age);
    }
}

/// The connection of a request, among the request's extensions.
#[derive(Clone)]
pub struct OfConnection {
    connections: Connections,
    age: u64,
}

impl OfConnection {
    /// Keeps the connection from being closed in favour of newcomers: a user authenticated on it.
    /// One beyond the user's share stays as it was.
    pub fn authenticated(&self, user: &str) {
        let user = shares::owner(user);
        let limits = &self.connections.limits;
        let mut open = self.connections.open.lock();
        let users = open.by_age.values().filter_map(|other| other.user.as_ref());
        let (in_all, of_user) = users.fold((0, 0), |(in_all, of_user), other| {
            (in_all + 1, of_user + usize::from(other == user))
        });
        if of_user >= limits.of_user || in_all + limits.reserve >= limits.at_once {
            return;
        }
        if let Some(connection) = open.by_age.get_mut(&self.age)
            && connection.user.is_none()
        {
            connection.user = Some(user.to_owned());
        }
    }
}

/// Returns whose connections count together: an IPv4 address, or the 64 bits of an IPv6 address
/// that name a network, since a machine has all addresses of its own.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        address => address,
    }
}

/// Returns the network that a request comes from; empty if nobody noted it.
pub fn network_of(headers: &HeaderMap) -> &str {
    let network = headers.get(NETWORK);
    network
        .and_then(|network| network.to_str().ok())
        .unwrap_or_default()
}

/// Copies where a request comes from.
pub fn copy_network(from: &HeaderMap, to: &mut HeaderMap) {
    if let Some(network) = from.get(NETWORK) {
        to.insert(NETWORK, network.clone());
    }
}

/// A connection that is closed when another one needs its place.
pub struct Bounded {
    stream: TcpStream,
    closed: oneshot::Receiver<()>,
    is_closed: bool,
    place: Place,
}

impl Bounded {
    /// Fails once the connection is to be closed; until then, the task is woken for it.
    fn poll_closed(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        self.is_closed = self.is_closed || Pin::new(&mut self.closed).poll(context).is_ready();
        if self.is_closed {
            return Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "too many connections",
            ));
        }
        Ok(())
    }
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_closed(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_closed(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_closed(context)?;
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Accepts TLS connections within the limits.
#[derive(Clone)]
pub struct BoundedAcceptor {
    tls: RustlsAcceptor,
    connections: Connections,
}

impl BoundedAcceptor {
    /// Wraps an acceptor.
    pub fn new(tls: RustlsAcceptor) -> Self {
        Self {
            tls,
            connections: Connections::new(Limits::USERS),
        }
    }
}

impl<S: Send + 'static> Accept<TcpStream, S> for BoundedAcceptor {
    type Stream = <RustlsAcceptor as Accept<Bounded, S>>::Stream;
    type Service = OnConnection<S>;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let from = match stream.peer_addr() {
            Ok(from) => from.ip(),
            Err(error) => return std::future::ready(Err(error)).boxed(),
        };
        let bounded = self.connections.add(stream, from);
        let connection = OfConnection {
            connections: self.connections.clone(),
            age: bounded.place.age,
        };

        let accepted = self.tls.accept(bounded, service);
        let marked = async move {
            let (stream, service) = accepted.await?;
            let service = OnConnection {
                service,
                connection,
                network: HeaderValue::from_str(&network(from).to_string()).ok(),
            };
            Ok((stream, service))
        };
        marked.boxed()
    }
}

/// The service of a connection: its requests know which one it is.
#[derive(Clone)]
pub struct OnConnection<S> {
    service: S,
    connection: OfConnection,
    network: Option<HeaderValue>,
}

impl<S: Service<Request<B>>, B> Service<Request<B>> for OnConnection<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        request.headers_mut().remove(NETWORK);
        if let Some(network) = &self.network {
            request.headers_mut().insert(NETWORK, network.clone());
        }
        request.extensions_mut().insert(self.connection.clone());
        self.service.call(request)
    }
}

/// A listener for plain HTTP within the limits.
pub struct BoundedListener {
    listener: TcpListener,
    connections: Connections,
}

impl BoundedListener {
    /// Wraps a listener.
    pub fn new(listener: TcpListener, limits: Limits) -> Self {
        Self {
            listener,
            connections: Connections::new(limits),
        }
    }
}

impl Listener for BoundedListener {
    type Io = Bounded;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Bounded, SocketAddr) {
        // This retries what a listener should retry, such as a lack of file descriptors.
        let (stream, from) = Listener::accept(&mut self.listener).await;
        (self.connections.add(stream, from.ip()), from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const LIMITS: Limits = Limits {
        at_once: 8,
        of_address: 4,
        of_user: 3,
        reserve: 3,
    };

    /// Connections of no other machine: their addresses are made up.
    struct Stage {
        listener: TcpListener,
        connections: Connections,
    }

    impl Stage {
        async fn new() -> Self {
            Self {
                listener: TcpListener::bind("127.0.0.1:0").await.expect("a port"),
                connections: Connections::new(LIMITS),
            }
        }

        async fn connect(&self, from: &str) -> Bounded {
            let address = self.listener.local_addr().expect("an address");
            let (client, accepted) =
                tokio::join!(TcpStream::connect(address), self.listener.accept());
            drop(client.expect("connected"));
            let (stream, _) = accepted.expect("accepted");
            self.connections
                .add(stream, from.parse().expect("an address"))
        }

        fn authenticate(&self, connection: &Bounded, user: &str) {
            let connection = OfConnection {
                connections: self.connections.clone(),
                age: connection.place.age,
            };
            connection.authenticated(user);
        }
    }

    async fn is_open(connection: &mut Bounded) -> bool {
        std::future::poll_fn(|context| Poll::Ready(connection.poll_closed(context).is_ok())).await
    }

    async fn open(connections: &mut [Bounded]) -> Vec<bool> {
        let mut are_open = Vec::new();
        for connection in connections {
            are_open.push(is_open(connection).await);
        }
        are_open
    }

    #[tokio::test]
    async fn address_takes_connections_from_itself_only() {
        let stage = Stage::new().await;
        let mut other = stage.connect("192.0.2.1").await;
        let mut greedy = Vec::new();
        for number in 0..6 {
            // The addresses of one network are one.
            greedy.push(stage.connect(&format!("2001:db8::{number}")).await);
        }
        assert_eq!(
            open(&mut greedy).await,
            [false, false, true, true, true, true]
        );
        assert!(is_open(&mut other).await);
        assert_eq!(stage.connections.count(), 5);

        // With many networks, it is the one that has most.
        let mut newcomers = Vec::new();
        for number in 1..5 {
            newcomers.push(stage.connect(&format!("2001:db8:{number}::1")).await);
        }
        assert_eq!(stage.connections.count(), LIMITS.at_once);
        assert_eq!(open(&mut newcomers).await, [true; 4]);
        assert!(is_open(&mut other).await);
        assert!(!is_open(&mut greedy[2]).await);

        drop((other, greedy, newcomers));
        assert_eq!(stage.connections.count(), 0);
    }

    #[tokio::test]
    async fn users_keep_their_connections_and_leave_a_reserve() {
        let stage = Stage::new().await;
        let mut users = Vec::new();
        for number in 0..4 {
            let connection = stage.connect("192.0.2.1").await;
            stage.authenticate(&connection, &format!("system:serviceaccount:team:{number}"));
            users.push(connection);
        }
        for user in ["jane", "john", "late"] {
            let connection = stage.connect("192.0.2.2").await;
            stage.authenticate(&connection, user);
            users.push(connection);
        }

        let mut strangers = Vec::new();
        for number in 0..5 {
            strangers.push(stage.connect(&format!("192.0.2.{}", 10 + number)).await);
        }
        // The fourth of the namespace has no share left, and the last one takes nothing from the
        // reserve.
        assert_eq!(
            open(&mut users).await,
            [true, true, true, false, true, true, false]
        );
        let newest = strangers.last_mut().expect("a connection");
        assert!(is_open(newest).await);
    }

    #[tokio::test]
    async fn closed_connection_wakes_whoever_waits_for_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let limits = Limits {
            of_address: 1,
            ..LIMITS
        };
        let mut listener = BoundedListener::new(listener, limits);
        let routes = axum::Router::new().route("/", axum::routing::get(|| async { "hello" }));
        let serving = tokio::spawn(async move {
            let (first, _) = Listener::accept(&mut listener).await;
            let waiting = tokio::spawn(async move {
                let mut first = first;
                first.read(&mut [0; 8]).await
            });
            let _second = Listener::accept(&mut listener).await;
            let read = waiting.await.expect("no panic");
            assert_eq!(
                read.expect_err("closed").kind(),
                io::ErrorKind::ConnectionAborted
            );
            axum::serve(listener, routes).await
        });

        let mut idle = TcpStream::connect(address).await.expect("connected");
        let _other = TcpStream::connect(address).await.expect("connected");
        assert_eq!(idle.read(&mut [0; 8]).await.unwrap_or_default(), 0);

        let mut client = TcpStream::connect(address).await.expect("connected");
        let request = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        client.write_all(request).await.expect("written");
        let mut text = String::new();
        client.read_to_string(&mut text).await.expect("an answer");
        assert!(text.ends_with("hello"), "{text}");
        serving.abort();
    }

    #[test]
    fn ipv4_address_stays_what_it_is() {
        for (address, expected) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ] {
            let address = address.parse().expect("an address");
            assert_eq!(network(address).to_string(), expected);
        }
    }
}
