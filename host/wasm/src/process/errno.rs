//! The error numbers of WASI preview 1.
//! <https://github.com/WebAssembly/WASI/blob/wasi-0.1/preview1/docs.md#errno>

use std::io;

/// Why a host function failed, as the guest is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Errno(pub u16);

impl Errno {
    pub const TOO_BIG: Self = Self(1);
    pub const ACCES: Self = Self(2);
    pub const ADDRINUSE: Self = Self(3);
    pub const ADDRNOTAVAIL: Self = Self(4);
    pub const AGAIN: Self = Self(6);
    pub const BADF: Self = Self(8);
    pub const BUSY: Self = Self(10);
    pub const CONNABORTED: Self = Self(13);
    pub const CONNREFUSED: Self = Self(14);
    pub const CONNRESET: Self = Self(15);
    pub const EXIST: Self = Self(20);
    pub const FAULT: Self = Self(21);
    pub const HOSTUNREACH: Self = Self(23);
    pub const ILSEQ: Self = Self(25);
    pub const INVAL: Self = Self(28);
    pub const IO: Self = Self(29);
    pub const ISDIR: Self = Self(31);
    pub const MFILE: Self = Self(33);
    pub const NAMETOOLONG: Self = Self(37);
    pub const NETUNREACH: Self = Self(40);
    pub const NOENT: Self = Self(44);
    pub const NOSPC: Self = Self(51);
    pub const NOSYS: Self = Self(52);
    pub const NOTCONN: Self = Self(53);
    pub const NOTDIR: Self = Self(54);
    pub const NOTEMPTY: Self = Self(55);
    pub const NOTSOCK: Self = Self(57);
    pub const NOTSUP: Self = Self(58);
    pub const PERM: Self = Self(63);
    pub const PIPE: Self = Self(64);
    pub const ROFS: Self = Self(69);
    pub const SPIPE: Self = Self(70);
    pub const TIMEDOUT: Self = Self(73);
    pub const XDEV: Self = Self(75);
}

impl From<&io::Error> for Errno {
    fn from(error: &io::Error) -> Self {
        use io::ErrorKind;

        match error.kind() {
            ErrorKind::PermissionDenied => Self::ACCES,
            ErrorKind::AddrInUse => Self::ADDRINUSE,
            ErrorKind::AddrNotAvailable => Self::ADDRNOTAVAIL,
            ErrorKind::BrokenPipe => Self::PIPE,
            ErrorKind::ConnectionAborted => Self::CONNABORTED,
            ErrorKind::ConnectionRefused => Self::CONNREFUSED,
            ErrorKind::ConnectionReset => Self::CONNRESET,
            ErrorKind::HostUnreachable => Self::HOSTUNREACH,
            ErrorKind::InvalidInput => Self::INVAL,
            ErrorKind::NetworkUnreachable => Self::NETUNREACH,
            // A name that is not found has no address to connect to.
            ErrorKind::NotFound => Self::HOSTUNREACH,
            ErrorKind::NotConnected => Self::NOTCONN,
            ErrorKind::TimedOut => Self::TIMEDOUT,
            ErrorKind::Unsupported => Self::NOTSUP,
            _ => Self::IO,
        }
    }
}
