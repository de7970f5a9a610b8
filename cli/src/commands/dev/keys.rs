//! The keys that a person presses. On a terminal no Enter is needed; otherwise they are read from
//! stdin as they come.

use std::{
    io::{IsTerminal, Read, stdin},
    thread,
};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A key with a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// End the session.
    Quit,
    /// Create the sample objects anew.
    Reset,
}

impl Key {
    fn of(byte: u8) -> Option<Self> {
        match byte {
            b'q' => Some(Self::Quit),
            b'r' => Some(Self::Reset),
            _ => None,
        }
    }
}

/// The keys. While this exists, the terminal does not wait for Enter.
pub struct Keys {
    pressed: UnboundedReceiver<Key>,
    before: Option<Termios>,
}

impl Keys {
    /// Begins to read keys.
    pub fn read() -> Self {
        let before = stdin().is_terminal().then(without_lines).flatten();
        let (sender, pressed) = unbounded_channel();

        // A blocking read cannot be cancelled: the thread ends with the process.
        thread::spawn(move || {
            for byte in stdin().lock().bytes().map_while(Result::ok) {
                if let Some(key) = Key::of(byte)
                    && sender.send(key).is_err()
                {
                    return;
                }
            }
        });

        Self { pressed, before }
    }

    /// Waits for a key. If stdin has ended, this waits forever.
    pub async fn next(&mut self) -> Key {
        match self.pressed.recv().await {
            Some(key) => key,
            None => std::future::pending().await,
        }
    }
}

/// Makes the terminal hand over each key at once, without showing it. Returns the previous
/// settings.
fn without_lines() -> Option<Termios> {
    let before = tcgetattr(stdin()).ok()?;

    let mut changed = before.clone();
    changed
        .local_modes
        .remove(LocalModes::ICANON | LocalModes::ECHO);

    tcsetattr(stdin(), OptionalActions::Now, &changed).ok()?;
    Some(before)
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // The terminal may be gone.
            let _either_way = tcsetattr(stdin(), OptionalActions::Now, before);
        }
    }
}
