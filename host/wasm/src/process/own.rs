//! The functions of `operetta_process`: connections, listeners, names and signals, for which
//! preview 1 has none. Only descriptors and addresses cross this border.

use std::net::{Ipv6Addr, SocketAddr};

use super::{
    descriptor::{Descriptor, Fd},
    errno::Errno,
    guest::Guest,
    network::{Destination, Host, MAX_ADDRESS, address_bytes},
    socket::{Lookup, Socket},
    state::State,
};

type Result<T = ()> = std::result::Result<T, Errno>;

/// The size of an address in the guest's memory, in bytes.
const ADDRESS_SIZE: u32 = 18;

impl State {
    /// Begins a connection. Its descriptor becomes writable once the outcome is known.
    pub(super) fn dial(&mut self, guest: &mut Guest<'_>, address: u32, length: u32) -> Result<Fd> {
        let to = Destination::parse(guest.text(address, length, MAX_ADDRESS)?)?;
        self.descriptors.check_room()?;
        let socket = Socket::dial(&self.network, self.address, &self.life.shared, to);
        self.descriptors.add(Descriptor::Socket(Box::new(socket)))
    }

    /// The outcome of a connection, and the address of this end.
    pub(super) fn dialled(&mut self, guest: &mut Guest<'_>, fd: u32, local: u32) -> Result {
        let Descriptor::Socket(socket) = self.descriptors.get(fd)? else {
            return Err(Errno::NOTSOCK);
        };
        socket.outcome()?;
        guest.put(local, &address_bytes(socket.local))
    }

    pub(super) fn listen(
        &mut self,
        guest: &mut Guest<'_>,
        address: u32,
        length: u32,
        local: u32,
    ) -> Result<Fd> {
        let text = guest.text(address, length, MAX_ADDRESS)?;
        // Without a host a program listens on all addresses.
        let at = match text.strip_prefix(':') {
            Some(port) => Destination {
                host: Host::Address(Ipv6Addr::UNSPECIFIED.into()),
                port: port.parse().map_err(|_| Errno::INVAL)?,
            },
            None => Destination::parse(text)?,
        };

        guest.bytes(local, ADDRESS_SIZE)?;
        self.descriptors.check_room()?;

        let listening = self.life.shared.ports.listen(&at, self.address)?;
        let address = listening.listener.local();
        let number = self.descriptors.add(Descriptor::Listener(listening))?;
        guest.put(local, &address_bytes(address))?;
        Ok(number)
    }

    /// The addresses of both ends. A listener has only its own.
    pub(super) fn addresses(
        &mut self,
        guest: &mut Guest<'_>,
        fd: u32,
        local: u32,
        remote: u32,
    ) -> Result {
        let (here, there) = match self.descriptors.get(fd)? {
            Descriptor::Socket(socket) => (socket.local, socket.remote),
            Descriptor::Listener(listening) => {
                let nowhere = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
                (listening.listener.local(), nowhere)
            }
            _ => return Err(Errno::NOTSOCK),
        };
        guest.bytes(remote, ADDRESS_SIZE)?;
        guest.put(local, &address_bytes(here))?;
        guest.put(remote, &address_bytes(there))
    }

    /// Begins to look up a name. The answer is read from the descriptor.
    pub(super) fn resolve(&mut self, guest: &mut Guest<'_>, name: u32, length: u32) -> Result<Fd> {
        let host = Host::parse(guest.text(name, length, MAX_ADDRESS)?)?;
        self.descriptors.check_room()?;
        let lookup = Lookup::new(self.network.clone(), host, &self.life.shared.waker);
        self.descriptors.add(Descriptor::Lookup(Box::new(lookup)))
    }

    /// Opens the descriptor of signals. A process has only one.
    pub(super) fn signals(&mut self, _: &mut Guest<'_>) -> Result<Fd> {
        self.descriptors.check_room()?;
        let signals = self.life.shared.signals.open()?;
        self.descriptors.add(Descriptor::Signals(signals))
    }
}
