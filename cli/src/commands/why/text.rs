//! An explanation as text for people: a tree with the newest change first, and each cause below its
//! effect.

use std::fmt::Write;

use k8s_openapi::jiff::{Timestamp, tz::TimeZone};
use operetta_core::{
    object::ObjectKey,
    recorder::explain::{Because, Explanation, Named, PluginWriter, Step, Writer},
};

/// How many characters of a digest or an id are printed.
const SHORT: usize = 12;

/// Formats an explanation.
pub fn explanation(kind: &str, key: &ObjectKey, explanation: &Explanation) -> String {
    let Explanation {
        changes,
        older,
        hidden,
        silent,
    } = explanation;

    let mut text = String::new();

    if changes.is_empty() {
        text.push_str(&format!(
            "No change of {kind} {key} is recorded. The flight recorder keeps an hour by default, and only changes of kinds that a \
             plugin on this host watches or writes.\n"
        ));
    }

    for step in changes {
        write_step(&mut text, step, 0);
    }

    if *older > 0 {
        text.push_str(&format!(
            "{older} older changes are recorded: --limit shows more.\n"
        ));
    }

    if *hidden > 0 {
        text.push_str(&format!(
            "{hidden} objects or Plugins are left out: you may not get them.\n"
        ));
    }

    for replica in silent {
        text.push_str(&format!(
            "A replica of the host did not answer, so changes may be missing: {replica}\n"
        ));
    }

    text
}

/// Names an object as kubectl's users write it.
pub fn name(object: &Named) -> String {
    let Named {
        kind,
        namespace,
        name,
        ..
    } = object;
    match namespace {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// Formats a time of the day in UTC.
pub fn time(milliseconds: u64) -> String {
    let at = i64::try_from(milliseconds)
        .ok()
        .and_then(|at| Timestamp::from_millisecond(at).ok());

    at.map(|at| {
        at.to_zoned(TimeZone::UTC)
            .strftime("%H:%M:%S%.3f")
            .to_string()
    })
    .unwrap_or_default()
}

/// Describes a change in one line.
pub fn change(step: &Step) -> String {
    let fields = match step.paths.as_deref() {
        Some([]) => " without a field".to_owned(),
        Some(paths) => format!(" {}", paths.join(", ")),
        None => String::new(),
    };

    let version = match step.resource_version.as_str() {
        "" => String::new(),
        version => format!(" (resourceVersion {version})"),
    };

    format!("{} {}{fields}{version}", name(&step.object), step.change)
}

/// Names a writer.
pub fn by(writer: &Writer) -> String {
    match writer {
        Writer::Plugin(writer) => {
            format!("Plugin {}, controller {}", writer.plugin, writer.controller)
        }
        Writer::HiddenPlugin => "a Plugin that you may not get".to_owned(),
        Writer::Outside { managers } if managers.is_empty() => {
            "an unknown writer outside of this host".to_owned()
        }
        Writer::Outside { managers } => format!("field manager {}", managers.join(" or ")),
    }
}

fn write_step(text: &mut String, step: &Step, depth: usize) {
    let indent = "  ".repeat(depth);

    let mut line = |line: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{indent}{line}");
    };

    line(format!("{}  {}", time(step.at), change(step)));
    line(format!("  by {}", by(&step.by)));

    if let Writer::Plugin(writer) = &step.by {
        write_reconcile(&mut line, writer);
    }

    for because in &step.because {
        write_because(text, because, depth + 1);
    }
}

fn write_reconcile(line: &mut impl FnMut(String), writer: &PluginWriter) {
    let short = |text: &str| text[..text.floor_char_boundary(SHORT)].to_owned();

    let digest = writer
        .digest
        .strip_prefix("sha256:")
        .unwrap_or(&writer.digest);

    line(format!(
        "  {} in reconcile {} of {}, as {}, code sha256:{}",
        writer.verb,
        writer.reconcile,
        name(&writer.object),
        writer.service_account,
        short(digest)
    ));

    if writer.reads.is_empty() {
        return;
    }

    let reads = writer.reads.iter().map(|read| {
        let version = if read.resource_version.is_empty() {
            String::new()
        } else {
            format!("@{}", read.resource_version)
        };

        format!(
            "{}{version}{}",
            read.text,
            if read.is_cached { "" } else { " (live)" }
        )
    });

    line(format!("  after {}", reads.collect::<Vec<_>>().join(", ")));
}

fn write_because(text: &mut String, because: &Because, depth: usize) {
    let indent = "  ".repeat(depth);

    let line = match because {
        Because::Change(step) => {
            let _ = writeln!(text, "{indent}because");
            return write_step(text, step, depth);
        }
        Because::Seen {
            object,
            resource_version,
        } => {
            format!(
                "because {} changed (resourceVersion {resource_version}), explained above",
                name(object)
            )
        }
        Because::Unrecorded {
            object,
            resource_version,
        } => {
            format!(
                "because {} changed (resourceVersion {resource_version}), which is not recorded",
                name(object)
            )
        }
        Because::Other { text } => format!("because of {text}"),
        Because::Hidden => "because of an object that you may not get".to_owned(),
    };

    let _ = writeln!(text, "{indent}{line}");
}
