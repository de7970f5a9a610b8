//! Finds the sentence in the guest's output that explains a trap.
//!
//! Runtimes print more than the reason: Rust a note about backtraces, Go its goroutines, Python the
//! frames before the exception, and componentize-py a Rust panic after it. So this module knows the
//! lines with which each runtime announces a crash. Without such a line, the last line counts. At
//! most [`MAX_MESSAGE`] bytes are kept.

use crate::cut;

/// The maximum length of a trap message in bytes.
const MAX_MESSAGE: usize = 2048;

/// The last output of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TrapMessage {
    /// The reason for the crash, as the guest's runtime printed it.
    Reason(String),
    /// The last line, which may be unrelated to the crash.
    LastLine(String),
}

/// Finds the trap message in stderr, line by line.
#[derive(Default)]
pub(crate) struct TrapMessageReader {
    /// The newest crash.
    crash: Option<Crash>,
    /// The last line that is not empty.
    last: String,
}

/// A crash, as far as its lines were read.
struct Crash {
    runtime: Runtime,
    text: String,
    next: Next,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Runtime {
    /// `thread 'main' panicked at src/lib.rs:5:9:`, the message on the next line.
    Rust,
    /// `panic: boom` or `fatal error: boom`, then the goroutines with their frames.
    Go,
    /// `Traceback (most recent call last):`, indented frames, then `ValueError: boom`.
    Python,
    /// `TypeError: boom`, then indented `at f (plugin.js:3:4)`.
    JavaScript,
}

/// The line of a crash to read next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The next line, whatever it is.
    Message,
    /// The first line without indentation.
    Exception,
    /// The first stack frame of the author's code.
    Frame,
    /// The source location of the previous frame.
    Location,
    Nothing,
}

impl TrapMessageReader {
    /// Reads the next line.
    pub(crate) fn read_line(&mut self, line: &str) {
        match (&mut self.crash, parse_crash(line)) {
            // The line of the exception may itself look like the start of a crash.
            (Some(crash), _) if crash.next == Next::Exception => crash.read_line(line),
            // componentize-py panics after it has printed the exception.
            (
                Some(Crash {
                    runtime: Runtime::Python,
                    ..
                }),
                Some(Crash {
                    runtime: Runtime::Rust,
                    ..
                }),
            ) => {}
            (_, Some(crash)) => self.crash = Some(crash),
            (Some(crash), None) => crash.read_line(line),
            (None, None) => {}
        }

        if !line.starts_with("note: ") {
            let line = line.trim_start();
            self.last.clear();
            self.last
                .push_str(&line[..line.floor_char_boundary(MAX_MESSAGE)]);
        }
    }

    /// Returns the message, and resets the reader. None if there was no output.
    pub(crate) fn take(&mut self) -> Option<TrapMessage> {
        let Self { crash, last } = std::mem::take(self);
        match crash {
            Some(Crash { text, .. }) if !text.is_empty() => {
                Some(TrapMessage::Reason(cut(text, MAX_MESSAGE)))
            }
            _ if !last.is_empty() => Some(TrapMessage::LastLine(last)),
            _ => None,
        }
    }
}

impl Crash {
    fn read_line(&mut self, line: &str) {
        let indented = line.starts_with([' ', '\t']);

        match self.next {
            Next::Message => {
                self.add(" ", line.trim_start());
                self.next = Next::Nothing;
            }
            Next::Exception if !indented => {
                line.clone_into(&mut self.text);
                self.next = Next::Nothing;
            }
            Next::Frame if self.runtime == Runtime::JavaScript => {
                if let Some(frame) = line.trim_start().strip_prefix("at ") {
                    self.add(" at ", frame);
                }
                self.next = Next::Nothing;
            }
            Next::Frame if is_own_go_frame(line) => self.next = Next::Location,
            Next::Location => {
                // "	/src/main.go:12 +0x1b"
                let location = line.trim_start().split(' ').next().unwrap_or_default();
                if indented && location.contains(".go:") {
                    self.add(" at ", location);
                    self.next = Next::Nothing;
                } else {
                    self.next = Next::Frame;
                }
            }
            Next::Exception | Next::Frame | Next::Nothing => {}
        }
    }

    fn add(&mut self, separator: &str, text: &str) {
        self.text = cut(format!("{}{separator}{text}", self.text), MAX_MESSAGE);
    }
}

/// Returns the crash beginning with this line, if any.
fn parse_crash(line: &str) -> Option<Crash> {
    // A guest may write a million lines, and most of them must cost little.
    if line.len() < "panic: x".len() {
        return None;
    }

    let crash = |runtime, text: &str, next| {
        Some(Crash {
            runtime,
            text: text.to_owned(),
            next,
        })
    };

    if let Some((_, rest)) = line.split_once("panicked at ") {
        let next = if line.ends_with(':') {
            Next::Message
        } else {
            Next::Nothing
        };
        return crash(Runtime::Rust, &format!("panicked at {rest}"), next);
    }

    if line.starts_with("panic: ") || line.starts_with("fatal error: ") {
        return crash(Runtime::Go, line, Next::Frame);
    }
    if line.starts_with("Traceback (most recent call last)") {
        return crash(Runtime::Python, "", Next::Exception);
    }

    let thrown = line
        .trim_start_matches("Uncaught ")
        .trim_start_matches("(in promise) ");
    let name = thrown.split(':').next().unwrap_or_default();
    let is_class =
        name.ends_with("Error") && name.chars().all(|letter| letter.is_ascii_alphanumeric());
    if is_class && thrown.len() > name.len() {
        return crash(Runtime::JavaScript, thrown, Next::Frame);
    }

    None
}

/// Reports whether this is a goroutine's frame outside the runtime.
fn is_own_go_frame(line: &str) -> bool {
    let is_function =
        line.ends_with(')') && !line.starts_with([' ', '\t', '[', '(']) && line.contains('(');
    is_function
        && !line.starts_with("runtime.")
        && !line.starts_with("panic(")
        && !line.starts_with("goroutine ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Option<String> {
        let mut reader = TrapMessageReader::default();
        text.lines()
            .filter(|line| !line.trim().is_empty())
            .for_each(|line| reader.read_line(line.trim_end()));
        reader.take().map(|message| match message {
            TrapMessage::Reason(text) => text,
            TrapMessage::LastLine(text) => format!("last: {text}"),
        })
    }

    #[test]
    fn finds_reason_in_output_of_each_runtime() {
        for (text, expected) in [
            (
                "\nthread '<unnamed>' (1) panicked at src/lib.rs:5:9:\nboom\nnote: run with `RUST_BACKTRACE=1`\n",
                "panicked at src/lib.rs:5:9: boom",
            ),
            (
                "panic: boom\n\ngoroutine 1 [running]:\npanic({0x1, 0x2})\n\truntime/panic.go:783 +0x9\n\
                 main.(*Reconciler).reconcile(0x1400)\n\t/src/main.go:12 +0x1b\nmain.main()\n\t/src/main.go:4 +0x2\n",
                "panic: boom at /src/main.go:12",
            ),
            (
                "panic: runtime error: invalid memory address or nil pointer dereference\n\
                 [signal 0xb code=0x0 addr=0x0 pc=0x0]\n\ngoroutine 6 [running]:\nmain.f(...)\n\tmain.go:7\n",
                "panic: runtime error: invalid memory address or nil pointer dereference at main.go:7",
            ),
            (
                "fatal error: all goroutines are asleep - deadlock!\n",
                "fatal error: all goroutines are asleep - deadlock!",
            ),
            (
                "starting\nTraceback (most recent call last):\n  File \"app.py\", line 3, in reconcile\n    f()\n\
                 ValueError: boom\n",
                "ValueError: boom",
            ),
            (
                "Traceback (most recent call last):\n  File \"app.py\", line 3\nKeyError: 'spec'\n\
                 thread '<unnamed>' panicked at runtime/src/lib.rs:1:2:\nPython function threw an unexpected exception\n",
                "KeyError: 'spec'",
            ),
            (
                "TypeError: boom\n    at reconcile (plugin.js:3:4)\n    at x (y)\n",
                "TypeError: boom at reconcile (plugin.js:3:4)",
            ),
            ("Uncaught Error: boom\n", "Error: boom"),
            (
                "starting\nAssertion failed: n > 0 (plugin.c: reconcile: 12)\n",
                "last: Assertion failed: n > 0 (plugin.c: reconcile: 12)",
            ),
            (
                "memory allocation of 8 bytes failed\nnote: more\n",
                "last: memory allocation of 8 bytes failed",
            ),
        ] {
            assert_eq!(message(text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(message(""), None);
    }

    #[test]
    fn newest_of_two_crashes_counts() {
        assert_eq!(
            message("panic: caught\npanic: fatal\n").as_deref(),
            Some("panic: fatal")
        );
    }

    #[test]
    fn message_is_cut_at_limit() {
        let long = "x".repeat(3 * MAX_MESSAGE);
        for text in [
            long.clone(),
            format!("panicked at a.rs:1:1:\n{long}"),
            format!("Error: {long}\n    at {long}"),
        ] {
            assert!(message(&text).is_some_and(|message| message.len() <= MAX_MESSAGE + 6));
        }
    }
}
