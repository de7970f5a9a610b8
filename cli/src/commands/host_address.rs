//! The address of a host's admin endpoints, as people type it after `--host`.

use std::{fmt, str::FromStr};

use http::{Uri, uri::Authority};

/// The port of a URL that names none.
const HTTP_PORT: u16 = 80;

/// The address of a host: `HOST:PORT`, typed as such or as `http://HOST[:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAddress(String);

impl HostAddress {
    /// Returns the address as `HOST:PORT`, for a socket and the `Host` header.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for HostAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (authority, default_port) = match text.split_once("://") {
            None => (text, None),
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("http") => {
                (authority_of(text)?, Some(HTTP_PORT))
            }
            Some((scheme, _)) => {
                return Err(format!(
                    "the scheme {scheme:?} is not supported: the host serves plain HTTP, use http://"
                ));
            }
        };

        if let Some((host, path)) = authority.split_once('/') {
            return Err(format!("/{path} is not part of an address: use {host}"));
        }

        let parsed: Authority = authority
            .parse()
            .map_err(|error| format!("{error}: use HOST:PORT, such as 127.0.0.1:8080"))?;

        if authority.contains('@') {
            return Err("the host takes no user name or password: use HOST:PORT".to_owned());
        }

        // `Authority` takes any digits for a port, and none after the colon.
        let host = parsed.host();
        let port = match authority[host.len()..].strip_prefix(':') {
            None => default_port.ok_or_else(|| {
                format!("the port is missing: use {host}:PORT, such as {host}:8080")
            })?,
            Some(port) => port
                .parse()
                .map_err(|_| format!("{port:?} is not a port: use a number from 1 to 65535"))?,
        };

        if host.is_empty() || port == 0 {
            return Err("use HOST:PORT, such as 127.0.0.1:8080".to_owned());
        }

        Ok(Self(format!("{host}:{port}")))
    }
}

/// The authority of a URL with no path behind it.
fn authority_of(url: &str) -> Result<&str, String> {
    let uri: Uri = url
        .parse()
        .map_err(|error| format!("{error}: use http://HOST:PORT"))?;

    let rest = url
        .split_once("://")
        .map(|(_, rest)| rest)
        .unwrap_or_default();

    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let path = uri.path_and_query().map_or("", |path| path.as_str());

    if path.trim_end_matches('/').is_empty() {
        Ok(authority)
    } else {
        Err(format!(
            "the path {path:?} is not part of an address: use http://{authority}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_accepted_as_host_and_port_or_as_url() {
        for (text, address) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("localhost:8080", "localhost:8080"),
            (
                "operetta.operetta-system.svc:80",
                "operetta.operetta-system.svc:80",
            ),
            ("[::1]:8080", "[::1]:8080"),
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://localhost:8080/", "localhost:8080"),
            ("HTTP://[::1]:8080", "[::1]:8080"),
            ("http://operetta", "operetta:80"),
        ] {
            assert_eq!(
                text.parse::<HostAddress>()
                    .map(|address| address.0)
                    .as_deref(),
                Ok(address),
                "{text}"
            );
        }
    }

    #[test]
    fn bad_address_is_refused_with_its_mistake_and_the_fix() {
        for (text, mistake) in [
            ("localhost", "the port is missing: use localhost:PORT"),
            ("127.0.0.1", "the port is missing"),
            ("[::1]", "the port is missing"),
            ("localhost:", "\"\" is not a port"),
            ("localhost:http", "\"http\" is not a port"),
            ("localhost:70000", "\"70000\" is not a port"),
            ("localhost:0", "use HOST:PORT"),
            (":8080", "use HOST:PORT"),
            ("", "use HOST:PORT"),
            ("a b:1", "use HOST:PORT"),
            (
                "https://localhost:8080",
                "\"https\" is not supported: the host serves plain HTTP",
            ),
            (
                "http://localhost:8080/logs",
                "the path \"/logs\" is not part of an address: use http://localhost:8080",
            ),
            ("http://localhost:8080/?x=1", "use http://localhost:8080"),
            (
                "localhost:8080/logs",
                "/logs is not part of an address: use localhost:8080",
            ),
            (
                "http://me:secret@localhost:8080",
                "no user name or password",
            ),
            ("me@localhost:8080", "no user name or password"),
            ("http://", "use http"),
        ] {
            let error = text.parse::<HostAddress>().expect_err(text);
            assert!(error.contains(mistake), "{text}: {error}");
        }
    }
}
