//! Trap messages: the one sentence that says why a guest died, among all that its language's runtime prints.
//!
//! Runtimes print more than the reason: Rust a note about backtraces, Go its goroutines, Python the frames before the
//! exception, and componentize-py a Rust panic after it. So the lines that announce an end are known here, one form for
//! each runtime; without one, the last line counts. Whatever is printed, at most [`MAX_WORDS`] bytes are kept.

use crate::cut;

/// Bytes kept of what the guest said last.
const MAX_WORDS: usize = 2048;

/// The last output of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TrapMessage {
    /// It announced its end, and this is why.
    Reason(String),
    /// Its last line, which may have to do with its end or not.
    LastLine(String),
}

/// The last output on stderr; fed line by line.
#[derive(Default)]
pub(crate) struct TrapMessageReader {
    /// The newest announcement of an end.
    end: Option<End>,
    /// The last line that says something, whatever it says.
    last: String,
}

/// An announcement, and what is still to come of it.
struct End {
    runtime: Runtime,
    text: String,
    next: Next,
}

/// Whose form an announcement has.
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

/// The lines that may follow an announcement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// This line, whatever it is.
    Message,
    /// The first line that is not indented.
    Exception,
    /// The first stack frame of the author's code.
    Frame,
    /// The place of the frame before.
    Place,
    Nothing,
}

impl TrapMessageReader {
    /// Takes the next line.
    pub(crate) fn hear(&mut self, line: &str) {
        match (&mut self.end, announced(line)) {
            // The exception may look like an announcement of its own.
            (Some(end), _) if end.next == Next::Exception => end.hear(line),
            // What componentize-py says after the exception that it is about.
            (Some(End { runtime: Runtime::Python, .. }), Some(End { runtime: Runtime::Rust, .. })) => {}
            (_, Some(end)) => self.end = Some(end),
            (Some(end), None) => end.hear(line),
            (None, None) => {}
        }
        if !line.starts_with("note: ") {
            let line = line.trim_start();
            self.last.clear();
            self.last.push_str(&line[..line.floor_char_boundary(MAX_WORDS)]);
        }
    }

    /// Takes the most telling message, and starts over; None if there was no output.
    pub(crate) fn take(&mut self) -> Option<TrapMessage> {
        let Self { end, last } = std::mem::take(self);
        match end {
            Some(End { text, .. }) if !text.is_empty() => Some(TrapMessage::Reason(cut(text, MAX_WORDS))),
            _ if !last.is_empty() => Some(TrapMessage::LastLine(last)),
            _ => None,
        }
    }
}

impl End {
    fn hear(&mut self, line: &str) {
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
            Next::Frame if is_own_go_frame(line) => self.next = Next::Place,
            Next::Place => {
                // "	/src/main.go:12 +0x1b"
                let place = line.trim_start().split(' ').next().unwrap_or_default();
                if indented && place.contains(".go:") {
                    self.add(" at ", place);
                    self.next = Next::Nothing;
                } else {
                    self.next = Next::Frame;
                }
            }
            Next::Exception | Next::Frame | Next::Nothing => {}
        }
    }

    fn add(&mut self, between: &str, text: &str) {
        self.text = cut(format!("{}{between}{text}", self.text), MAX_WORDS);
    }
}

/// Returns the kind of end that this line announces.
fn announced(line: &str) -> Option<End> {
    // A guest may write a million lines: most of them are looked at only here.
    if line.len() < "panic: x".len() {
        return None;
    }
    let end = |runtime, text: &str, next| Some(End { runtime, text: text.to_owned(), next });
    if let Some((_, place)) = line.split_once("panicked at ") {
        let next = if line.ends_with(':') { Next::Message } else { Next::Nothing };
        return end(Runtime::Rust, &format!("panicked at {place}"), next);
    }
    if line.starts_with("panic: ") || line.starts_with("fatal error: ") {
        return end(Runtime::Go, line, Next::Frame);
    }
    if line.starts_with("Traceback (most recent call last)") {
        return end(Runtime::Python, "", Next::Exception);
    }
    let thrown = line.trim_start_matches("Uncaught ").trim_start_matches("(in promise) ");
    let name = thrown.split(':').next().unwrap_or_default();
    let is_class = name.ends_with("Error") && name.chars().all(|letter| letter.is_ascii_alphanumeric());
    if is_class && thrown.len() > name.len() {
        return end(Runtime::JavaScript, thrown, Next::Frame);
    }
    None
}

/// Reports whether this is a goroutine's frame outside the runtime.
fn is_own_go_frame(line: &str) -> bool {
    let is_function = line.ends_with(')') && !line.starts_with([' ', '\t', '[', '(']) && line.contains('(');
    is_function && !line.starts_with("runtime.") && !line.starts_with("panic(") && !line.starts_with("goroutine ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Option<String> {
        let mut words = TrapMessageReader::default();
        text.lines().filter(|line| !line.trim().is_empty()).for_each(|line| words.hear(line.trim_end()));
        words.take().map(|words| match words {
            TrapMessage::Reason(text) => text,
            TrapMessage::LastLine(text) => format!("last: {text}"),
        })
    }

    #[test]
    fn the_reason_is_found_among_what_runtimes_print_around_it() {
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
            ("memory allocation of 8 bytes failed\nnote: more\n", "last: memory allocation of 8 bytes failed"),
        ] {
            assert_eq!(words(text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(words(""), None);
    }

    #[test]
    fn the_newest_of_two_ends_counts() {
        assert_eq!(words("panic: caught\npanic: fatal\n").as_deref(), Some("panic: fatal"));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let long = "x".repeat(3 * MAX_WORDS);
        for text in [long.clone(), format!("panicked at a.rs:1:1:\n{long}"), format!("Error: {long}\n    at {long}")] {
            assert!(words(&text).is_some_and(|words| words.len() <= MAX_WORDS + 6));
        }
    }
}
