//! The sockets of a process: connections, listeners and the answers of lookups. No function here
//! waits.

use std::{
    collections::{HashMap, VecDeque},
    fmt, io,
    mem::MaybeUninit,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    Shared,
    errno::Errno,
    network::{Destination, Host, Network, Stream, ip_bytes, is_localhost},
    pipe::{Pipe, pipe},
    wake::{Event, ProcessWaker},
};

/// How much is read from a stream to find out whether it is readable, in bytes.
const READ_AHEAD: usize = 4096;

/// The most connections that wait for a listener's program to accept them (`SOMAXCONN`).
const BACKLOG: usize = 128;

/// The most addresses in the answer of a lookup.
const MAX_ADDRESSES: usize = 64;

/// The ports from which the host picks, as Linux does.
const EPHEMERAL: std::ops::RangeInclusive<u16> = 32_768..=60_999;

/// What a descriptor that is ready has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ready {
    /// The number of bytes, or an estimate.
    pub bytes: u64,
    /// True if the peer has ended, or the connection is broken.
    pub has_ended: bool,
}

type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// One end of a connection, from the time it begins to connect.
pub(super) struct Socket {
    state: State,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Due if a read is worth a try.
    readable: Arc<Event>,
    /// Due if a write is worth a try, or while connecting, another look at the outcome.
    writable: Arc<Event>,
    /// The bytes read to find out that there are some.
    ahead: VecDeque<u8>,
    /// How reads end once `ahead` is empty: without more bytes, or with an error.
    end: Option<Result<(), Errno>>,
    has_shut_write: bool,
}

enum State {
    Connecting(Connecting),
    Connected(Box<dyn Stream>),
    Failed(Errno),
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Socket({} -> {})", self.local, self.remote)
    }
}

impl Socket {
    /// An established connection.
    pub fn connected(
        stream: Box<dyn Stream>,
        local: SocketAddr,
        remote: SocketAddr,
        process: &Arc<ProcessWaker>,
    ) -> Self {
        Self::new(State::Connected(stream), local, remote, process)
    }

    /// Begins the connection of a process with this address: to itself, or to wherever its network
    /// leads.
    pub fn dial(network: &Arc<dyn Network>, own: IpAddr, shared: &Shared, to: Destination) -> Self {
        let waker = &shared.waker;
        let port = shared.ports.pick();
        if !to.is_own(own) {
            return Self::connect(network.clone(), to, SocketAddr::new(own, port), waker);
        }

        let mut remote = to.address();
        if remote.ip().is_unspecified() {
            remote.set_ip(loopback_like(remote.ip()));
        }
        let local = SocketAddr::new(loopback_like(remote.ip()), port);
        match shared.ports.connect(to.port, local, true) {
            Ok(stream) => Self::connected(Box::new(stream), local, remote, waker),
            Err(error) => Self::failed(Errno::from(&error), local, remote, waker),
        }
    }

    /// Begins a connection.
    fn connect(
        network: Arc<dyn Network>,
        to: Destination,
        local: SocketAddr,
        process: &Arc<ProcessWaker>,
    ) -> Self {
        let remote = to.address();
        let connecting = Box::pin(async move { network.connect(&to).await });
        let mut socket = Self::new(State::Connecting(connecting), local, remote, process);
        socket.settle();
        socket
    }

    /// A connection that was refused.
    fn failed(
        error: Errno,
        local: SocketAddr,
        remote: SocketAddr,
        process: &Arc<ProcessWaker>,
    ) -> Self {
        Self::new(State::Failed(error), local, remote, process)
    }

    fn new(
        state: State,
        local: SocketAddr,
        remote: SocketAddr,
        process: &Arc<ProcessWaker>,
    ) -> Self {
        Self {
            state,
            local,
            remote,
            readable: Event::new(process),
            writable: Event::new(process),
            ahead: VecDeque::new(),
            end: None,
            has_shut_write: false,
        }
    }

    /// Goes on connecting, if something has happened.
    fn settle(&mut self) {
        let State::Connecting(connecting) = &mut self.state else {
            return;
        };
        if !self.writable.is_due() {
            return;
        }

        self.writable.begin();
        let waker = Waker::from(self.writable.clone());
        let Poll::Ready(result) = connecting.as_mut().poll(&mut Context::from_waker(&waker)) else {
            return;
        };

        self.writable.again();
        self.state = match result {
            Ok(stream) => State::Connected(stream),
            Err(error) => State::Failed(Errno::from(&error)),
        };
    }

    /// Whether it is connected.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] while it connects, and then why it failed.
    pub fn outcome(&mut self) -> Result<(), Errno> {
        self.settle();
        match &self.state {
            State::Connecting(_) => Err(Errno::AGAIN),
            State::Connected(_) => Ok(()),
            State::Failed(error) => Err(*error),
        }
    }

    /// What there is to read; None if a read would wait.
    pub fn readable(&mut self) -> Option<Ready> {
        match self.outcome() {
            Ok(()) => {}
            Err(Errno::AGAIN) => return None,
            Err(_) => {
                return Some(Ready {
                    bytes: 0,
                    has_ended: true,
                });
            }
        }

        if self.ahead.is_empty() && self.end.is_none() && self.readable.is_due() {
            let mut space = [MaybeUninit::uninit(); READ_AHEAD];
            let mut buffer = ReadBuf::uninit(&mut space);
            if let Some(end) = self.fill(&mut buffer) {
                self.end = Some(end);
            }
            self.ahead.extend(buffer.filled());
        }

        let has_ended = self.end.is_some();
        (has_ended || !self.ahead.is_empty()).then_some(Ready {
            bytes: self.ahead.len() as u64,
            has_ended,
        })
    }

    /// Whether a write could take some bytes now.
    pub fn writable(&mut self) -> Option<Ready> {
        match self.outcome() {
            Ok(()) => self.writable.is_due().then_some(Ready {
                bytes: 1,
                has_ended: false,
            }),
            Err(Errno::AGAIN) => None,
            Err(_) => Some(Ready {
                bytes: 0,
                has_ended: true,
            }),
        }
    }

    /// Reads from the stream once. Returns how reading ends, if it does.
    fn fill(&mut self, buffer: &mut ReadBuf<'_>) -> Option<Result<(), Errno>> {
        let State::Connected(stream) = &mut self.state else {
            return None;
        };

        self.readable.begin();
        let waker = Waker::from(self.readable.clone());
        let before = buffer.filled().len();
        let read = Pin::new(stream).poll_read(&mut Context::from_waker(&waker), buffer);

        match read {
            Poll::Pending => None,
            Poll::Ready(result) => {
                self.readable.again();
                match result {
                    Ok(()) => (buffer.filled().len() == before).then_some(Ok(())),
                    Err(error) => Some(Err(Errno::from(&error))),
                }
            }
        }
    }

    /// Reads into a buffer; 0 is the end.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] if there is nothing yet, and the error of the connection.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, Errno> {
        self.outcome()?;
        if into.is_empty() {
            return Ok(0);
        }

        if !self.ahead.is_empty() {
            let (front, _) = self.ahead.as_slices();
            let length = front.len().min(into.len());
            into[..length].copy_from_slice(&front[..length]);
            self.ahead.drain(..length);
            if self.ahead.is_empty() {
                self.ahead = VecDeque::new();
            }
            return Ok(length);
        }
        if let Some(end) = self.end {
            return end.map(|()| 0);
        }
        if !self.readable.is_due() {
            return Err(Errno::AGAIN);
        }

        let mut buffer = ReadBuf::new(into);
        let end = self.fill(&mut buffer);
        let length = buffer.filled().len();
        match end {
            Some(end) => {
                self.end = Some(end);
                end.map(|()| 0)
            }
            None if length == 0 => Err(Errno::AGAIN),
            None => Ok(length),
        }
    }

    /// Writes as much as fits.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] if nothing fits, and the error of the connection.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        self.outcome()?;
        if self.has_shut_write {
            return Err(Errno::PIPE);
        }
        if bytes.is_empty() {
            return Ok(0);
        }
        let State::Connected(stream) = &mut self.state else {
            return Err(Errno::NOTCONN);
        };
        if !self.writable.is_due() {
            return Err(Errno::AGAIN);
        }

        self.writable.begin();
        let waker = Waker::from(self.writable.clone());
        match Pin::new(stream).poll_write(&mut Context::from_waker(&waker), bytes) {
            Poll::Pending => Err(Errno::AGAIN),
            Poll::Ready(result) => {
                self.writable.again();
                result.map_err(|error| Errno::from(&error))
            }
        }
    }

    /// Ends reading, writing or both.
    pub fn shutdown(&mut self, read: bool, write: bool) -> Result<(), Errno> {
        self.outcome().map_err(|error| match error {
            Errno::AGAIN => Errno::NOTCONN,
            error => error,
        })?;

        if read {
            self.ahead = VecDeque::new();
            self.end = Some(Ok(()));
        }
        if write && !self.has_shut_write {
            self.has_shut_write = true;
            if let State::Connected(stream) = &mut self.state {
                let waker = Waker::from(self.writable.clone());
                let _best_effort = Pin::new(stream).poll_shutdown(&mut Context::from_waker(&waker));
            }
        }
        Ok(())
    }
}

/// A port on which a process listens.
#[derive(Debug)]
pub(super) struct Listener {
    local: SocketAddr,
    process: Arc<ProcessWaker>,
    /// The guest's ends of connections, and where they come from.
    waiting: Mutex<VecDeque<(Pipe, SocketAddr)>>,
}

impl Listener {
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    pub fn readable(&self) -> Option<Ready> {
        let waiting = self.waiting.lock().len();
        (waiting > 0).then_some(Ready {
            bytes: waiting as u64,
            has_ended: false,
        })
    }

    /// Takes the oldest connection.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] if there is none.
    pub fn accept(&self) -> Result<Socket, Errno> {
        let (stream, remote) = self.waiting.lock().pop_front().ok_or(Errno::AGAIN)?;
        let local = SocketAddr::new(own_address(self.local.ip(), remote.ip()), self.local.port());
        Ok(Socket::connected(
            Box::new(stream),
            local,
            remote,
            &self.process,
        ))
    }
}

/// The address of an accepted connection: the peer's view of a listener on all addresses.
fn own_address(listening: IpAddr, peer: IpAddr) -> IpAddr {
    if listening.is_unspecified() {
        loopback_like(peer)
    } else {
        listening
    }
}

fn loopback_like(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    }
}

/// The ports of a process.
#[derive(Debug)]
pub(super) struct Ports {
    process: Arc<ProcessWaker>,
    listeners: Mutex<HashMap<u16, Arc<Listener>>>,
    /// The last port picked, from 0.
    picked: Mutex<u16>,
}

/// A listener as a descriptor: dropping it closes the port.
#[derive(Debug)]
pub(super) struct Listening {
    pub listener: Arc<Listener>,
    ports: Arc<Ports>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.ports.close(&self.listener);
    }
}

impl Ports {
    pub fn new(process: &Arc<ProcessWaker>) -> Arc<Self> {
        Arc::new(Self {
            process: process.clone(),
            listeners: Mutex::default(),
            picked: Mutex::default(),
        })
    }

    /// Returns a port for one end of a connection, or for a listener that asks for none.
    pub fn pick(&self) -> u16 {
        let mut picked = self.picked.lock();
        let count = EPHEMERAL.end() - EPHEMERAL.start() + 1;
        *picked = (*picked + 1) % count;
        EPHEMERAL.start() + *picked
    }

    /// Listens at an address. Port 0 picks one.
    ///
    /// # Errors
    /// [`Errno::ADDRINUSE`] if the port is taken, on whatever address, and
    /// [`Errno::ADDRNOTAVAIL`] if the address is not this process's.
    pub fn listen(self: &Arc<Self>, at: &Destination, own: IpAddr) -> Result<Listening, Errno> {
        if !at.is_own(own) {
            return Err(Errno::ADDRNOTAVAIL);
        }

        let mut listeners = self.listeners.lock();
        let mut address = at.address();
        if let Host::Name(_) = at.host {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        if at.port == 0 {
            let mut free = EPHEMERAL.map(|_| self.pick());
            let free = free.find(|port| !listeners.contains_key(port));
            address.set_port(free.ok_or(Errno::ADDRINUSE)?);
        }
        if listeners.contains_key(&address.port()) {
            return Err(Errno::ADDRINUSE);
        }

        let listener = Arc::new(Listener {
            local: address,
            process: self.process.clone(),
            waiting: Mutex::default(),
        });
        listeners.insert(address.port(), listener.clone());
        Ok(Listening {
            listener,
            ports: self.clone(),
        })
    }

    /// Connects to a listener, and returns the peer's end. Listeners on loopback are reached from
    /// inside only.
    ///
    /// # Errors
    /// `ConnectionRefused` says who refused.
    pub fn connect(&self, port: u16, from: SocketAddr, is_inside: bool) -> io::Result<Pipe> {
        let refused = |why: String| io::Error::new(io::ErrorKind::ConnectionRefused, why);
        let listener = self.listeners.lock().get(&port).cloned();
        let listener = listener
            .ok_or_else(|| refused(format!("the process does not listen on port {port}")))?;

        let local = listener.local;
        if !is_inside && local.ip().is_loopback() {
            return Err(refused(format!(
                "the process listens on {local} only, which nothing outside of it reaches"
            )));
        }

        let (here, there) = pipe();
        {
            let mut waiting = listener.waiting.lock();
            if waiting.len() >= BACKLOG {
                return Err(refused(format!(
                    "{BACKLOG} connections to port {port} wait for the process to accept them"
                )));
            }
            waiting.push_back((there, from));
        }
        self.process.wake();
        Ok(here)
    }

    /// The addresses on which the process listens, in the order of ports.
    pub fn listening(&self) -> Vec<SocketAddr> {
        let mut all: Vec<_> = self
            .listeners
            .lock()
            .values()
            .map(|listener| listener.local)
            .collect();
        all.sort_unstable_by_key(SocketAddr::port);
        all
    }

    fn close(&self, listener: &Arc<Listener>) {
        let mut listeners = self.listeners.lock();
        if listeners
            .get(&listener.local.port())
            .is_some_and(|open| Arc::ptr_eq(open, listener))
        {
            listeners.remove(&listener.local.port());
        }
        drop(listeners);
        // Whoever waits to be accepted has to learn of it.
        let waiting = std::mem::take(&mut *listener.waiting.lock());
        for (stream, _) in waiting {
            stream.reset();
        }
    }
}

pub(super) type Resolving = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Looks up a name, for at most 64 addresses. Addresses and `localhost` answer for themselves.
pub(super) fn resolve(network: Arc<dyn Network>, host: Host) -> Resolving {
    match host {
        Host::Address(address) => Box::pin(async move { Ok(vec![address]) }),
        Host::Name(name) if is_localhost(&name) => {
            Box::pin(async { Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]) })
        }
        Host::Name(name) => Box::pin(async move {
            let mut addresses = network.resolve(&name).await?;
            addresses.truncate(MAX_ADDRESSES);
            Ok(addresses)
        }),
    }
}

/// The answer of a lookup.
pub(super) struct Lookup {
    /// None once there is an answer.
    resolving: Option<Resolving>,
    event: Arc<Event>,
    answer: VecDeque<u8>,
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lookup")
    }
}

impl Lookup {
    /// The first byte of an answer.
    const FOUND: u8 = 0;
    const NO_SUCH_HOST: u8 = 1;
    const TEMPORARY: u8 = 2;

    /// Begins to look up a name.
    pub fn new(network: Arc<dyn Network>, host: Host, process: &Arc<ProcessWaker>) -> Self {
        let mut lookup = Self {
            resolving: Some(resolve(network, host)),
            event: Event::new(process),
            answer: VecDeque::new(),
        };
        lookup.settle();
        lookup
    }

    fn settle(&mut self) {
        let Some(resolving) = self.resolving.as_mut().filter(|_| self.event.is_due()) else {
            return;
        };

        self.event.begin();
        let waker = Waker::from(self.event.clone());
        let Poll::Ready(result) = resolving.as_mut().poll(&mut Context::from_waker(&waker)) else {
            return;
        };

        self.resolving = None;
        match result {
            Ok(addresses) => {
                self.answer.push_back(if addresses.is_empty() {
                    Self::NO_SUCH_HOST
                } else {
                    Self::FOUND
                });
                self.answer.extend(addresses.into_iter().flat_map(ip_bytes));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.answer.push_back(Self::NO_SUCH_HOST);
            }
            Err(_) => self.answer.push_back(Self::TEMPORARY),
        }
    }

    pub fn readable(&mut self) -> Option<Ready> {
        self.settle();
        self.resolving.is_none().then_some(Ready {
            bytes: self.answer.len() as u64,
            has_ended: self.answer.is_empty(),
        })
    }

    /// Reads the answer; 0 once all of it was read.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] before there is one.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, Errno> {
        if self.readable().is_none() {
            return Err(Errno::AGAIN);
        }
        let length = into.len().min(self.answer.len());
        for (to, from) in into.iter_mut().zip(self.answer.drain(..length)) {
            *to = from;
        }
        Ok(length)
    }
}
