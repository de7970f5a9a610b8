//! Reads keys in a thread of its own, because reading from a terminal blocks.

use std::time::Duration;

use crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// How soon the thread notices that nobody wants keys any more.
const PATIENCE: Duration = Duration::from_millis(100);

/// An input at the terminal.
pub enum Input {
    /// A key was pressed.
    Key(KeyEvent),
    /// The size of the terminal has changed.
    Resized,
}

/// Starts the thread. It ends with the receiver, or when the terminal is gone.
pub fn read() -> Receiver<Input> {
    let (out, keys) = channel(32);
    std::thread::spawn(move || forward(&out));
    keys
}

fn forward(out: &Sender<Input>) {
    while !out.is_closed() {
        let input = match event::poll(PATIENCE)
            .and_then(|is_ready| is_ready.then(event::read).transpose())
        {
            Ok(Some(Event::Key(key))) if key.kind != KeyEventKind::Release => Input::Key(key),
            Ok(Some(Event::Resize(..))) => Input::Resized,
            Ok(_) => continue,
            Err(_) => return,
        };

        if out.blocking_send(input).is_err() {
            return;
        }
    }
}
