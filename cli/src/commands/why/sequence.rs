//! An explanation as a sequence of messages between writers and objects, oldest first.

use operetta_core::recorder::explain::{Because, Explanation, Step, Writer};

use super::text;

/// The participant of an object or a Plugin that the user may not read.
const HIDDEN: &str = "(hidden)";

/// A message from one participant to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The writer, or the object whose event it is.
    pub from: String,
    /// The object that is written, or the plugin that is triggered.
    pub to: String,
    /// The change, or the trigger.
    pub text: String,
}

/// Returns the messages of an explanation.
pub fn messages(explanation: &Explanation) -> Vec<Message> {
    let mut messages = Vec::new();
    for step in explanation.changes.iter().rev() {
        add_step(&mut messages, step);
    }
    messages
}

fn add_step(messages: &mut Vec<Message>, step: &Step) {
    let writer = match &step.by {
        Writer::Plugin(writer) => format!("Plugin {}", writer.plugin),
        Writer::HiddenPlugin => HIDDEN.to_owned(),
        Writer::Outside { managers } if managers.is_empty() => "unknown".to_owned(),
        Writer::Outside { managers } => managers.join(" or "),
    };

    for because in &step.because {
        let trigger = |from: String, text: String| Message {
            from,
            to: writer.clone(),
            text,
        };

        let message = match because {
            Because::Change(cause) => {
                add_step(messages, cause);
                trigger(
                    text::name(&cause.object),
                    format!("event {}", cause.resource_version),
                )
            }
            Because::Seen {
                object,
                resource_version,
            }
            | Because::Unrecorded {
                object,
                resource_version,
            } => trigger(text::name(object), format!("event {resource_version}")),
            Because::Other { text } => trigger(writer.clone(), text.clone()),
            Because::Hidden => trigger(HIDDEN.to_owned(), "event".to_owned()),
        };

        add(messages, message);
    }

    let fields = step
        .paths
        .as_deref()
        .map(|paths| paths.join(", "))
        .unwrap_or_default();

    let text = [step.change.as_str(), &fields, &step.resource_version]
        .join(" ")
        .replace("  ", " ");

    add(
        messages,
        Message {
            from: writer,
            to: text::name(&step.object),
            text,
        },
    );
}

/// Adds a message once: changes of the object are also the causes of later ones.
fn add(messages: &mut Vec<Message>, message: Message) {
    if !messages.contains(&message) {
        messages.push(message);
    }
}

/// The participants, in order of appearance.
pub fn participants(messages: &[Message]) -> Vec<&str> {
    let mut participants: Vec<&str> = Vec::new();

    for name in messages
        .iter()
        .flat_map(|message| [message.from.as_str(), &message.to])
    {
        if !participants.contains(&name) {
            participants.push(name);
        }
    }

    participants
}

/// Formats the messages as a Mermaid sequence diagram.
pub fn mermaid(messages: &[Message]) -> String {
    let participants = participants(messages);

    let mut text = "sequenceDiagram\n".to_owned();

    for (at, name) in participants.iter().enumerate() {
        text.push_str(&format!("  participant p{at} as {}\n", plain(name)));
    }

    let place = |name: &str| {
        participants
            .iter()
            .position(|known| *known == name)
            .unwrap_or_default()
    };

    for Message {
        from,
        to,
        text: what,
    } in messages
    {
        text.push_str(&format!(
            "  p{}->>p{}: {}\n",
            place(from),
            place(to),
            plain(what)
        ));
    }

    text
}

/// Removes the characters that Mermaid's syntax uses.
fn plain(text: &str) -> String {
    text.chars()
        .map(|char| {
            if ";:#\"<>\n".contains(char) {
                ' '
            } else {
                char
            }
        })
        .collect()
}
