//! `wasi:sockets`: connections, listeners and names of a command. No function here waits.

use std::{
    collections::VecDeque,
    future::poll_fn,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use wasmtime::{Result, component::Resource};
use wasmtime_wasi::{
    async_trait,
    p2::{
        DynInputStream, DynOutputStream, DynPollable, Pollable, SocketError, SocketResult,
        TcpSocket, UdpSocket,
        bindings::sockets::{
            ip_name_lookup::{self, ResolveAddressStream},
            network::{self, ErrorCode, IpAddress, IpAddressFamily, IpSocketAddress, Network},
            tcp::{self, ShutdownType},
            tcp_create_socket, udp_create_socket,
        },
        subscribe,
    },
};

use super::{Command, Counted, entry, owned_entry, resource, tcp::Shared};
use crate::process::{
    errno::Errno,
    network::{Destination, Host},
    signals::SIGNALS,
    socket::{Listening, Resolving, Socket, resolve},
    wake::{Event, ProcessWaker},
};

/// What the options of a socket show. They can be set to anything, and do nothing.
const KEEP_ALIVE_NANOS: u64 = 7_200_000_000_000;
const KEEP_ALIVE_INTERVAL_NANOS: u64 = 75_000_000_000;
const KEEP_ALIVE_COUNT: u32 = 9;
const HOP_LIMIT: u8 = 64;
const BUFFER_BYTES: u64 = 64 << 10;

/// A TCP socket of the process.
struct Tcp {
    family: IpAddressFamily,
    state: State,
    waker: Arc<ProcessWaker>,
    _counted: Counted,
}

/// Most of WASI's operations have a start and a finish. Only connecting takes time here, so the
/// others are done at the start.
enum State {
    Unbound,
    /// A bound socket has its port as a listener has, so that nobody else gets it.
    Binding(Listening),
    Bound(Listening),
    BeginningToListen(Listening),
    Listening(Listening),
    Connecting(Shared),
    Connected(Shared),
    /// Connecting has failed.
    Closed,
}

impl Tcp {
    fn take(&mut self) -> State {
        std::mem::replace(&mut self.state, State::Closed)
    }

    fn connection(&self) -> SocketResult<&Shared> {
        match &self.state {
            State::Connected(shared) => Ok(shared),
            _ => Err(ErrorCode::InvalidState.into()),
        }
    }

    fn check_family(&self, address: &SocketAddr) -> SocketResult<()> {
        let fits = match (self.family, address) {
            (IpAddressFamily::Ipv4, SocketAddr::V4(_)) => true,
            // WASI's IPv6 sockets don't speak IPv4.
            (IpAddressFamily::Ipv6, SocketAddr::V6(address)) => {
                address.ip().to_ipv4_mapped().is_none()
            }
            _ => false,
        };
        if fits {
            Ok(())
        } else {
            Err(ErrorCode::InvalidArgument.into())
        }
    }
}

#[async_trait]
impl Pollable for Tcp {
    async fn ready(&mut self) {
        match &self.state {
            State::Connecting(shared) => {
                shared
                    .until(|connection| connection.socket.outcome() != Err(Errno::AGAIN))
                    .await;
            }
            State::Listening(listening) => {
                poll_fn(|context| {
                    self.waker.register(context.waker());
                    match listening.listener.readable() {
                        Some(_) => Poll::Ready(()),
                        None => Poll::Pending,
                    }
                })
                .await;
            }
            _ => {}
        }
    }
}

/// The code of WASI for an error of the house.
fn code(error: Errno) -> ErrorCode {
    match error {
        Errno::ACCES | Errno::PERM => ErrorCode::AccessDenied,
        Errno::ADDRINUSE => ErrorCode::AddressInUse,
        Errno::ADDRNOTAVAIL => ErrorCode::AddressNotBindable,
        Errno::AGAIN => ErrorCode::WouldBlock,
        Errno::CONNABORTED => ErrorCode::ConnectionAborted,
        Errno::CONNREFUSED => ErrorCode::ConnectionRefused,
        Errno::CONNRESET | Errno::PIPE => ErrorCode::ConnectionReset,
        Errno::HOSTUNREACH | Errno::NETUNREACH => ErrorCode::RemoteUnreachable,
        Errno::INVAL => ErrorCode::InvalidArgument,
        Errno::MFILE => ErrorCode::NewSocketLimit,
        Errno::NOTCONN => ErrorCode::InvalidState,
        Errno::NOTSUP => ErrorCode::NotSupported,
        Errno::TIMEDOUT => ErrorCode::Timeout,
        _ => ErrorCode::Unknown,
    }
}

fn failed(error: Errno) -> SocketError {
    code(error).into()
}

fn destination(address: SocketAddr) -> Destination {
    Destination {
        host: Host::Address(address.ip().to_canonical()),
        port: address.port(),
    }
}

/// A value that an option can have: anything but zero.
fn check_option(value: u64) -> SocketResult<()> {
    if value == 0 {
        return Err(ErrorCode::InvalidArgument.into());
    }
    Ok(())
}

impl Command {
    fn tcp(&mut self, this: &Resource<TcpSocket>) -> SocketResult<&mut Tcp> {
        Ok(self.table.get_mut(&entry::<Tcp, _>(this))?)
    }

    fn check_network(&mut self, network: &Resource<Network>) -> SocketResult<()> {
        self.table.get(network)?;
        Ok(())
    }

    fn add_tcp(&mut self, family: IpAddressFamily, state: State) -> SocketResult<Resource<Tcp>> {
        let counted = self.open.one_more().map_err(failed)?;
        let tcp = Tcp {
            family,
            state,
            waker: self.life.shared.waker.clone(),
            _counted: counted,
        };
        Ok(self.table.push(tcp)?)
    }

    fn add_streams(
        &mut self,
        shared: &Shared,
        tcp: &Resource<Tcp>,
    ) -> SocketResult<(Resource<DynInputStream>, Resource<DynOutputStream>)> {
        let (input, output): (DynInputStream, DynOutputStream) = shared.streams();
        let input = self.table.push_child(input, tcp)?;
        let output = self.table.push_child(output, tcp)?;
        Ok((input, output))
    }

    fn share(&self, socket: Socket) -> Shared {
        Shared::new(socket, &self.life.shared.waker, &self.unsent)
    }

    /// Begins a connection.
    fn dial(&self, to: SocketAddr) -> Shared {
        let shared = &self.life.shared;
        let socket = if to == SIGNALS {
            let signals = shared.signals.connect();
            Socket::connected(Box::new(signals), to, to, &shared.waker)
        } else {
            Socket::dial(&self.network, self.address, shared, destination(to))
        };
        self.share(socket)
    }
}

impl network::Host for Command {
    fn convert_error_code(&mut self, error: SocketError) -> Result<ErrorCode> {
        error.downcast()
    }

    fn network_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> Result<Option<ErrorCode>> {
        let error = self.table.get(&error)?;
        Ok(error.downcast_ref::<io::Error>().map(ErrorCode::from))
    }
}

impl network::HostNetwork for Command {
    fn drop(&mut self, this: Resource<Network>) -> Result<()> {
        self.table.delete(this)?;
        Ok(())
    }
}

impl tcp_create_socket::Host for Command {
    fn create_tcp_socket(&mut self, family: IpAddressFamily) -> SocketResult<Resource<TcpSocket>> {
        let tcp = self.add_tcp(family, State::Unbound)?;
        Ok(resource(&tcp))
    }
}

impl udp_create_socket::Host for Command {
    async fn create_udp_socket(&mut self, _: IpAddressFamily) -> SocketResult<Resource<UdpSocket>> {
        Err(ErrorCode::NotSupported.into())
    }
}

impl tcp::Host for Command {}

impl tcp::HostTcpSocket for Command {
    async fn start_bind(
        &mut self,
        this: Resource<TcpSocket>,
        network: Resource<Network>,
        at: IpSocketAddress,
    ) -> SocketResult<()> {
        self.check_network(&network)?;
        let at = SocketAddr::from(at);
        let (own, ports) = (self.address, self.life.shared.ports.clone());
        let tcp = self.tcp(&this)?;
        tcp.check_family(&at)?;
        if !matches!(tcp.state, State::Unbound) {
            return Err(ErrorCode::InvalidState.into());
        }

        let listening = ports.listen(&destination(at), own).map_err(failed)?;
        tcp.state = State::Binding(listening);
        Ok(())
    }

    fn finish_bind(&mut self, this: Resource<TcpSocket>) -> SocketResult<()> {
        let tcp = self.tcp(&this)?;
        match tcp.take() {
            State::Binding(listening) => {
                tcp.state = State::Bound(listening);
                Ok(())
            }
            other => {
                tcp.state = other;
                Err(ErrorCode::NotInProgress.into())
            }
        }
    }

    fn start_connect(
        &mut self,
        this: Resource<TcpSocket>,
        network: Resource<Network>,
        to: IpSocketAddress,
    ) -> SocketResult<()> {
        self.check_network(&network)?;
        let to = SocketAddr::from(to);
        let tcp = self.tcp(&this)?;
        tcp.check_family(&to)?;
        if to.port() == 0 || to.ip().is_unspecified() {
            return Err(ErrorCode::InvalidArgument.into());
        }
        match tcp.state {
            State::Unbound | State::Bound(_) => {}
            State::Connecting(_) => return Err(ErrorCode::ConcurrencyConflict.into()),
            _ => return Err(ErrorCode::InvalidState.into()),
        }

        let connecting = State::Connecting(self.dial(to));
        self.tcp(&this)?.state = connecting;
        Ok(())
    }

    fn finish_connect(
        &mut self,
        this: Resource<TcpSocket>,
    ) -> SocketResult<(Resource<DynInputStream>, Resource<DynOutputStream>)> {
        let tcp = self.tcp(&this)?;
        let State::Connecting(shared) = &tcp.state else {
            return Err(ErrorCode::NotInProgress.into());
        };

        let shared = shared.clone();
        let outcome = shared.connection.lock().socket.outcome();
        match outcome {
            Ok(()) => tcp.state = State::Connected(shared.clone()),
            Err(Errno::AGAIN) => return Err(ErrorCode::WouldBlock.into()),
            Err(error) => {
                tcp.state = State::Closed;
                return Err(failed(error));
            }
        }
        self.add_streams(&shared, &entry(&this))
    }

    async fn start_listen(&mut self, this: Resource<TcpSocket>) -> SocketResult<()> {
        let tcp = self.tcp(&this)?;
        match tcp.take() {
            State::Bound(listening) => {
                tcp.state = State::BeginningToListen(listening);
                Ok(())
            }
            other => {
                tcp.state = other;
                Err(ErrorCode::InvalidState.into())
            }
        }
    }

    fn finish_listen(&mut self, this: Resource<TcpSocket>) -> SocketResult<()> {
        let tcp = self.tcp(&this)?;
        match tcp.take() {
            State::BeginningToListen(listening) => {
                tcp.state = State::Listening(listening);
                Ok(())
            }
            other => {
                tcp.state = other;
                Err(ErrorCode::NotInProgress.into())
            }
        }
    }

    fn accept(
        &mut self,
        this: Resource<TcpSocket>,
    ) -> SocketResult<(
        Resource<TcpSocket>,
        Resource<DynInputStream>,
        Resource<DynOutputStream>,
    )> {
        let tcp = self.tcp(&this)?;
        let family = tcp.family;
        let State::Listening(listening) = &tcp.state else {
            return Err(ErrorCode::InvalidState.into());
        };

        let listener = listening.listener.clone();
        // Checked first: an accepted connection without a handle would be lost.
        drop(self.open.one_more().map_err(failed)?);
        let shared = self.share(listener.accept().map_err(failed)?);
        let accepted = self.add_tcp(family, State::Connected(shared.clone()))?;
        let (input, output) = self.add_streams(&shared, &accepted)?;
        Ok((resource(&accepted), input, output))
    }

    fn local_address(&mut self, this: Resource<TcpSocket>) -> SocketResult<IpSocketAddress> {
        let tcp = self.tcp(&this)?;
        let address = match &tcp.state {
            State::Bound(listening)
            | State::BeginningToListen(listening)
            | State::Listening(listening) => listening.listener.local(),
            State::Connecting(shared) | State::Connected(shared) => {
                shared.connection.lock().socket.local
            }
            State::Unbound | State::Binding(_) | State::Closed => {
                return Err(ErrorCode::InvalidState.into());
            }
        };

        // A process has one address. wasi-libc traps if it isn't of the socket's family.
        Ok(match (tcp.family, address) {
            (IpAddressFamily::Ipv6, SocketAddr::V4(address)) => {
                SocketAddr::from((address.ip().to_ipv6_mapped(), address.port())).into()
            }
            _ => address.into(),
        })
    }

    fn remote_address(&mut self, this: Resource<TcpSocket>) -> SocketResult<IpSocketAddress> {
        let shared = self.tcp(&this)?.connection()?;
        let remote = shared.connection.lock().socket.remote;
        Ok(remote.into())
    }

    fn is_listening(&mut self, this: Resource<TcpSocket>) -> Result<bool> {
        let tcp = self.table.get(&entry::<Tcp, _>(&this))?;
        Ok(matches!(tcp.state, State::Listening(_)))
    }

    fn address_family(&mut self, this: Resource<TcpSocket>) -> Result<IpAddressFamily> {
        Ok(self.table.get(&entry::<Tcp, _>(&this))?.family)
    }

    fn set_listen_backlog_size(
        &mut self,
        this: Resource<TcpSocket>,
        size: u64,
    ) -> SocketResult<()> {
        self.tcp(&this)?;
        check_option(size)
    }

    fn keep_alive_enabled(&mut self, this: Resource<TcpSocket>) -> SocketResult<bool> {
        self.tcp(&this)?;
        Ok(false)
    }

    fn set_keep_alive_enabled(&mut self, this: Resource<TcpSocket>, _: bool) -> SocketResult<()> {
        self.tcp(&this)?;
        Ok(())
    }

    fn keep_alive_idle_time(&mut self, this: Resource<TcpSocket>) -> SocketResult<u64> {
        self.tcp(&this)?;
        Ok(KEEP_ALIVE_NANOS)
    }

    fn set_keep_alive_idle_time(
        &mut self,
        this: Resource<TcpSocket>,
        nanos: u64,
    ) -> SocketResult<()> {
        self.tcp(&this)?;
        check_option(nanos)
    }

    fn keep_alive_interval(&mut self, this: Resource<TcpSocket>) -> SocketResult<u64> {
        self.tcp(&this)?;
        Ok(KEEP_ALIVE_INTERVAL_NANOS)
    }

    fn set_keep_alive_interval(
        &mut self,
        this: Resource<TcpSocket>,
        nanos: u64,
    ) -> SocketResult<()> {
        self.tcp(&this)?;
        check_option(nanos)
    }

    fn keep_alive_count(&mut self, this: Resource<TcpSocket>) -> SocketResult<u32> {
        self.tcp(&this)?;
        Ok(KEEP_ALIVE_COUNT)
    }

    fn set_keep_alive_count(&mut self, this: Resource<TcpSocket>, count: u32) -> SocketResult<()> {
        self.tcp(&this)?;
        check_option(count.into())
    }

    fn hop_limit(&mut self, this: Resource<TcpSocket>) -> SocketResult<u8> {
        self.tcp(&this)?;
        Ok(HOP_LIMIT)
    }

    fn set_hop_limit(&mut self, this: Resource<TcpSocket>, hops: u8) -> SocketResult<()> {
        self.tcp(&this)?;
        check_option(hops.into())
    }

    fn receive_buffer_size(&mut self, this: Resource<TcpSocket>) -> SocketResult<u64> {
        self.tcp(&this)?;
        Ok(BUFFER_BYTES)
    }

    fn set_receive_buffer_size(
        &mut self,
        this: Resource<TcpSocket>,
        size: u64,
    ) -> SocketResult<()> {
        self.tcp(&this)?;
        check_option(size)
    }

    fn send_buffer_size(&mut self, this: Resource<TcpSocket>) -> SocketResult<u64> {
        self.tcp(&this)?;
        Ok(BUFFER_BYTES)
    }

    fn set_send_buffer_size(&mut self, this: Resource<TcpSocket>, size: u64) -> SocketResult<()> {
        self.tcp(&this)?;
        check_option(size)
    }

    fn subscribe(&mut self, this: Resource<TcpSocket>) -> Result<Resource<DynPollable>> {
        subscribe(&mut self.table, entry::<Tcp, _>(&this))
    }

    fn shutdown(&mut self, this: Resource<TcpSocket>, how: ShutdownType) -> SocketResult<()> {
        let (read, write) = match how {
            ShutdownType::Receive => (true, false),
            ShutdownType::Send => (false, true),
            ShutdownType::Both => (true, true),
        };
        let shared = self.tcp(&this)?.connection()?;
        let shut = shared.connection.lock().shutdown(read, write);
        shut.map_err(failed)
    }

    fn drop(&mut self, this: Resource<TcpSocket>) -> Result<()> {
        self.table.delete(owned_entry::<Tcp, _>(&this))?;
        Ok(())
    }
}

/// The answer of a lookup.
struct Names {
    /// None once there is an answer.
    resolving: Option<Resolving>,
    event: Arc<Event>,
    answer: std::result::Result<VecDeque<IpAddr>, ErrorCode>,
    waker: Arc<ProcessWaker>,
}

impl Names {
    /// Goes on with the lookup, if something has happened. Returns whether there is an answer.
    fn settle(&mut self) -> bool {
        let Some(resolving) = &mut self.resolving else {
            return true;
        };
        if !self.event.is_due() {
            return false;
        }

        self.event.begin();
        let waker = Waker::from(self.event.clone());
        let Poll::Ready(result) = resolving.as_mut().poll(&mut Context::from_waker(&waker)) else {
            return false;
        };

        self.resolving = None;
        self.answer = match result {
            Ok(addresses) if addresses.is_empty() => Err(ErrorCode::NameUnresolvable),
            Ok(addresses) => Ok(addresses.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(ErrorCode::NameUnresolvable)
            }
            Err(_) => Err(ErrorCode::TemporaryResolverFailure),
        };
        true
    }
}

#[async_trait]
impl Pollable for Names {
    async fn ready(&mut self) {
        poll_fn(|context| {
            self.waker.register(context.waker());
            if self.settle() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

impl ip_name_lookup::Host for Command {
    fn resolve_addresses(
        &mut self,
        network: Resource<Network>,
        name: String,
    ) -> SocketResult<Resource<ResolveAddressStream>> {
        self.check_network(&network)?;
        let host = Host::parse(&name).map_err(failed)?;
        let waker = &self.life.shared.waker;
        let names = Names {
            resolving: Some(resolve(self.network.clone(), host)),
            event: Event::new(waker),
            answer: Ok(VecDeque::new()),
            waker: waker.clone(),
        };
        let names = self.table.push(names)?;
        Ok(resource(&names))
    }
}

impl ip_name_lookup::HostResolveAddressStream for Command {
    fn resolve_next_address(
        &mut self,
        this: Resource<ResolveAddressStream>,
    ) -> SocketResult<Option<IpAddress>> {
        let names = self.table.get_mut(&entry::<Names, _>(&this))?;
        if !names.settle() {
            return Err(ErrorCode::WouldBlock.into());
        }
        match &mut names.answer {
            Ok(addresses) => Ok(addresses.pop_front().map(IpAddress::from)),
            Err(error) => Err((*error).into()),
        }
    }

    fn subscribe(&mut self, this: Resource<ResolveAddressStream>) -> Result<Resource<DynPollable>> {
        subscribe(&mut self.table, entry::<Names, _>(&this))
    }

    fn drop(&mut self, this: Resource<ResolveAddressStream>) -> Result<()> {
        self.table.delete(owned_entry::<Names, _>(&this))?;
        Ok(())
    }
}
