//! Tests of the screens, drawn to a terminal in memory and compared with the text files in
//! `golden/`.
//!
//! `UPDATE_GENERATED=1` rewrites the files.

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use k8s_openapi::jiff::Timestamp;
use operetta_core::{
    handler::event::Event,
    object::{ManagedFields, Object, ObjectKey, kind::GroupVersionKind},
};
use operetta_kube::client::table::Column as ApiColumn;
use ratatui::{Terminal, backend::TestBackend};
use serde_json::{Value, json};

use super::{
    app::{App, Request},
    draw::draw,
    metrics,
    style::Palette,
    table::Health,
    view::{Opened, Target, Update},
};
use crate::commands::watch::{Change, Line};

const SIZES: [(u16, u16); 2] = [(80, 24), (200, 50)];

fn now() -> Timestamp {
    "2026-11-22T10:10:00Z".parse().expect("a time")
}

/// What a terminal of a size shows.
fn screen(app: &mut App, problem: Option<&str>, (width, height): (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    let palette = Palette { has_colors: true };

    terminal
        .draw(|frame| draw(frame, app, problem, palette, now()))
        .expect("a drawing");

    let buffer = terminal.backend().buffer();
    let line = |y: u16| {
        let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        line.trim_end().to_owned() + "\n"
    };

    (0..height).map(line).collect()
}

/// Compares the screens of all sizes with files.
fn check(name: &str, app: &mut App, problem: Option<&str>) {
    for size in SIZES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands/top/golden");
        let path = path.join(format!("{name}-{}x{}.txt", size.0, size.1));
        let shown = screen(app, problem, size);

        if std::env::var_os("UPDATE_GENERATED").is_some() {
            fs::write(&path, &shown).expect("a file");
        }

        let expected = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(
            shown,
            expected,
            "{}: UPDATE_GENERATED=1 writes it anew",
            path.display()
        );
    }
}

fn press(app: &mut App, keys: &str) -> Vec<Request> {
    let code = |letter| match letter {
        '\n' => KeyCode::Enter,
        '\u{1b}' => KeyCode::Esc,
        letter => KeyCode::Char(letter),
    };

    keys.chars()
        .filter_map(|letter| app.key(KeyEvent::new(code(letter), KeyModifiers::NONE), now()))
        .collect()
}

fn plugin(namespace: &str, name: &str, status: &Value) -> Event {
    let metadata =
        json!({"name": name, "namespace": namespace, "creationTimestamp": "2026-11-22T10:00:00Z"});
    let object = json!({"apiVersion": "operetta.dev/v1alpha1", "kind": "Plugin", "metadata": metadata, "spec": {},
        "status": status});

    let object = Object::untyped(&object.to_string(), ManagedFields::Drop).expect("an object");
    Event::Added {
        object: Arc::new(object),
        initial: true,
    }
}

fn status(ready: &str, degraded: &str, reason: &str, message: &str) -> Value {
    let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-11-22T10:01:00Z"});
    json!({"conditions": [condition("Ready", ready), condition("Degraded", degraded)], "reason": reason, "message": message,
        "replica": "operetta-7d9f", "host": "10.0.0.7:8080", "digest": "sha256:1f2e",
        "controllers": [{"name": "web", "for": "Foo.example.com/v1", "reconciles": 120, "errors": 3, "queued": 2, "failing": 1,
            "lastError": "team/a: failed to apply: quota exceeded"}]})
}

/// The screen of three Plugins after two scrapes.
fn plugins() -> App {
    let mut app = App::new(Target {
        kind: "plugins".to_owned(),
        all_namespaces: true,
        ..Target::default()
    });

    app.apply(Update::Opened(Opened {
        name: "plugins.operetta.dev".to_owned(),
        kind: GroupVersionKind::new("operetta.dev/v1alpha1", "Plugin"),
        namespace: None,
        is_namespaced: true,
    }));

    let refused = "ServiceAccount shop/cart does not consent: \u{1b}[31mrun kubectl annotate";
    let events = vec![
        plugin(
            "team",
            "web",
            &status("True", "False", "AsExpected", "all controllers run"),
        ),
        plugin(
            "shop",
            "cart",
            &status("False", "True", "ConsentMissing", refused),
        ),
        plugin(
            "shop",
            "a-plugin-with-a-name-that-is-much-longer-than-its-column",
            &status("True", "True", "HotLoop", "a key is held"),
        ),
    ];

    app.apply(Update::Plugins {
        events,
        is_whole: true,
    });

    let start = Instant::now();
    for (seconds, count) in [(0, 0.0), (2, 1.0)] {
        let text = format!(
            "operetta_plugin_cpu_seconds_total{{plugin=\"web\",namespace=\"team\"}} {}\n\
             controller_runtime_reconcile_total{{plugin=\"web\",namespace=\"team\"}} {}\n\
             controller_runtime_reconcile_errors_total{{plugin=\"web\",namespace=\"team\"}} {}\n\
             controller_runtime_reconcile_time_seconds_bucket{{plugin=\"web\",namespace=\"team\",le=\"0.005\"}} {}\n\
             controller_runtime_reconcile_time_seconds_bucket{{plugin=\"web\",namespace=\"team\",le=\"+Inf\"}} {}\n\
             operetta_plugin_peak_memory_bytes{{plugin=\"web\",namespace=\"team\"}} 12582912\n\
             workqueue_depth{{plugin=\"web\",namespace=\"team\"}} 7\n\
             operetta_plugin_cpu_seconds_total{{plugin=\"cart\",namespace=\"shop\"}} 0\n",
            0.7 * count,
            240.0 * count,
            4.0 * count,
            240.0 * count,
            240.0 * count,
        );

        let round = vec![("operetta-7d9f".to_owned(), Ok(metrics::read(&text)))];
        app.apply(Update::Scrapes {
            at: start + Duration::from_secs(seconds),
            round,
        });
    }

    app
}

fn line(namespace: &str, name: &str, ready: &str) -> Line {
    Line {
        change: Change::Added,
        key: ObjectKey::namespaced(namespace, name),
        cells: [
            name,
            ready,
            "a note of some length that only a wide terminal has room for",
            "10m",
        ]
        .map(str::to_owned)
        .to_vec(),
        created: "2026-11-22T10:00:00Z".to_owned(),
    }
}

fn rows(lines: Vec<Line>, health: Vec<(ObjectKey, Health)>, is_whole: bool) -> Update {
    let column = |name: &str, priority| ApiColumn {
        name: name.to_owned(),
        priority,
    };

    let columns = vec![
        column("Name", 0),
        column("Ready", 0),
        column("Note", 1),
        column("Age", 0),
    ];

    Update::Rows {
        columns,
        lines,
        health,
        is_whole,
        at: now(),
    }
}

/// The screen of 40 objects.
fn foos() -> App {
    let mut app = App::new(Target {
        kind: "foos".to_owned(),
        all_namespaces: true,
        labels: "app=web".to_owned(),
        ..Target::default()
    });

    app.apply(Update::Opened(Opened {
        name: "foos.example.com".to_owned(),
        kind: GroupVersionKind::new("example.com/v1", "Foo"),
        namespace: None,
        is_namespaced: true,
    }));

    let lines: Vec<Line> = (0..40)
        .map(|at| line("team", &format!("foo-{at:02}"), "True"))
        .collect();
    let health = lines.iter().enumerate().map(|(at, line)| {
        (
            line.key.clone(),
            if at % 4 == 0 {
                Health::NotReady
            } else {
                Health::Ready
            },
        )
    });
    let health = health.collect();

    app.apply(rows(lines, health, true));
    app
}

#[test]
fn plugins_are_drawn_with_their_rates() {
    let mut app = plugins();
    check("plugins", &mut app, None);
}

#[test]
fn column_that_sorts_is_shown_at_80_columns() {
    let mut app = plugins();

    assert!(!screen(&mut app, None, (80, 24)).contains("MEM"));
    press(&mut app, "M");
    let shown = screen(&mut app, None, (80, 24));
    assert!(
        shown.contains("MEM↓") && shown.contains("REASON"),
        "{shown}"
    );
}

#[test]
fn columns_of_numbers_keep_their_width() {
    let mut app = plugins();
    let heading = |app: &mut App| {
        screen(app, None, (80, 24))
            .lines()
            .nth(2)
            .map(str::to_owned)
    };

    let before = heading(&mut app);
    let round = vec![("operetta-7d9f".to_owned(), Ok(metrics::read("")))];
    app.apply(Update::Scrapes {
        at: Instant::now() + Duration::from_secs(9),
        round,
    });

    assert_eq!(heading(&mut app), before);
}

#[test]
fn problems_are_drawn_above_the_rows() {
    let mut app = plugins();
    let denied = "User \"jane\" cannot get path \"/metrics\": ask an administrator for a ClusterRole with this nonResourceURL (EndpointForbidden)";

    app.apply(Update::Scrapes {
        at: Instant::now(),
        round: vec![(String::new(), Err(denied.to_owned()))],
    });
    check(
        "problems",
        &mut app,
        Some("watch of plugins.operetta.dev failed, retrying: connection refused"),
    );
}

#[test]
fn details_are_drawn_with_cause_and_cure() {
    let mut app = plugins();
    press(&mut app, "/cart\n\n");
    check("details", &mut app, None);
}

#[test]
fn rates_of_a_plugin_take_one_line_of_80_columns() {
    let mut app = plugins();
    press(&mut app, "/web\n\n");

    let shown = screen(&mut app, None, (80, 24));
    let line = shown.lines().find(|line| line.contains("p50"));
    assert!(
        line.is_some_and(|line| line.ends_with("p99 5.0ms")),
        "{shown}"
    );
}

#[test]
fn help_is_drawn() {
    let mut app = plugins();
    press(&mut app, "?");
    check("help", &mut app, None);
}

#[test]
fn objects_are_drawn_with_their_printer_columns() {
    let mut app = foos();
    press(&mut app, "jj");
    check("objects", &mut app, None);
}

#[test]
fn nothing_but_drawn_characters_reaches_the_terminal() {
    let mut app = foos();
    let evil = "evil\u{1b}]0;title\u{7}\u{9b}2J\u{202e}";
    app.apply(rows(vec![line(evil, evil, evil)], vec![], true));
    for keys in ["", "\n", "\u{1b}/x\u{1b}", ":\u{202e}"] {
        press(&mut app, keys);
        let shown = screen(&mut app, Some(evil), (200, 20));
        let is_drawn =
            |letter: char| letter == '\n' || !(letter.is_control() || letter == '\u{202e}');
        assert!(shown.chars().all(is_drawn), "{shown:?}");
        assert!(shown.contains(r"evil\u{1b}]0;title"), "{shown}");
    }
}

#[test]
fn any_size_can_be_drawn() {
    for mut app in [plugins(), foos()] {
        for keys in [
            "",
            "?",
            "\u{1b}\n",
            "\u{1b}/long text that is longer than the terminal",
        ] {
            press(&mut app, keys);
            for size in [(1, 1), (3, 2), (10, 3), (20, 4), (40, 5), (500, 100)] {
                screen(&mut app, Some("a problem"), size);
            }
        }
    }
}

#[test]
fn keys_are_those_of_k9s_and_htop() {
    let mut app = plugins();
    let titles = |app: &App| {
        app.table
            .sort()
            .0
            .map(|at| app.table.columns[at].title.clone())
            .unwrap_or_default()
    };

    for (key, column) in [
        ("M", "MEM"),
        ("R", "RATE/s"),
        ("E", "ERR/s"),
        ("U", "QUEUE"),
        (">", "MEM"),
        ("<", "QUEUE"),
        ("N", "NAME"),
        ("P", "CPU%"),
    ] {
        press(&mut app, key);
        assert_eq!(titles(&app), column, "{key}");
    }

    assert!(app.table.sort().1);
    press(&mut app, "I");
    assert!(!app.table.sort().1);

    let open = |app: &mut App, keys: &str| match press(app, keys).pop() {
        Some(Request::Open(target)) => target,
        other => panic!("{other:?}"),
    };
    let base = Target {
        kind: "plugins".to_owned(),
        all_namespaces: true,
        ..Target::default()
    };

    assert_eq!(
        open(&mut app, ":foos\n"),
        Target {
            kind: "foos".to_owned(),
            ..base.clone()
        }
    );

    let team = Target {
        kind: "foos".to_owned(),
        namespace: Some("team".to_owned()),
        all_namespaces: false,
        labels: String::new(),
    };
    assert_eq!(open(&mut app, ":foos team\n"), team);

    assert_eq!(
        open(&mut app, "nteam\n"),
        Target {
            kind: "plugins".to_owned(),
            ..team
        }
    );

    assert_eq!(open(&mut app, "0"), base);
    assert_eq!(press(&mut app, ":\n"), []);
    assert_eq!(press(&mut app, ":q\n"), [Request::Quit]);
    assert_eq!(press(&mut app, "q"), [Request::Quit]);

    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    press(&mut app, "/");
    assert_eq!(app.key(interrupt, now()), Some(Request::Quit));
}

#[test]
fn pages_open_and_close_in_turn() {
    let mut app = plugins();
    press(&mut app, "/web\n");
    let web = ObjectKey::namespaced("team", "web");

    assert_eq!(press(&mut app, "\nly"), [Request::Follow(web.clone())]);

    app.apply(Update::Log(
        web.clone(),
        vec!["one\ntwo\u{1b}[1m".to_owned()],
    ));

    let shown = screen(&mut app, None, (80, 24));
    assert!(
        shown.contains("Log of team/web  1-2/2\none\ntwo\\u{1b}[1m\n"),
        "{shown}"
    );

    app.apply(Update::Log(
        web.clone(),
        (0..2000).map(|at| format!("line {at}")).collect(),
    ));
    assert!(screen(&mut app, None, (80, 24)).contains("line 1999"));

    press(&mut app, "k");
    app.apply(Update::Log(web.clone(), vec!["later".to_owned()]));
    assert!(
        !screen(&mut app, None, (80, 24)).contains("later"),
        "the page was scrolled up"
    );

    assert_eq!(press(&mut app, "q"), [Request::Unfollow]);
    assert_eq!(press(&mut app, "y"), [Request::Read(web.clone())]);
    app.apply(Update::Document(web, Ok("kind: Plugin\n".to_owned())));
    assert!(screen(&mut app, None, (80, 24)).contains("kind: Plugin"));

    press(&mut app, "\u{1b}\u{1b}");
    assert!(app.pages.is_empty());
    press(&mut app, "\u{1b}");
    assert_eq!(app.table.filter().text(), "");

    press(&mut app, " ");
    assert!(screen(&mut app, None, (80, 24)).contains("PAUSED"));
    press(&mut app, " ");
    assert_eq!(app.paused, None);
}

#[test]
fn rows_follow_changes_and_go_with_their_kind() {
    let mut app = foos();
    let key = ObjectKey::namespaced("team", "foo-00");

    app.apply(rows(vec![line("team", "foo-00", "False")], vec![], false));
    let health = |app: &mut App| app.table.row_mut(&key).map(|row| row.health);

    assert_eq!(
        health(&mut app),
        Some(Health::NotReady),
        "a row without news of its health keeps it"
    );

    app.apply(rows(
        vec![Line {
            change: Change::Deleted,
            ..line("team", "foo-00", "")
        }],
        vec![(key.clone(), Health::Ready)],
        false,
    ));

    assert_eq!(health(&mut app), None);
    app.apply(Update::Gone);

    let shown = screen(
        &mut app,
        Some("the server does not serve foos.example.com any more"),
        (80, 24),
    );
    assert!(
        shown.contains("foos(all)[0]") && shown.contains("does not serve"),
        "{shown}"
    );

    app.apply(rows(vec![line("team", "foo-00", "True")], vec![], true));
    assert!(screen(&mut app, None, (80, 24)).contains("foo-00"));
}

#[test]
fn objects_of_a_cluster_have_no_namespace() {
    let mut app = App::new(Target {
        kind: "nodes".to_owned(),
        all_namespaces: true,
        ..Target::default()
    });

    let kind = GroupVersionKind::new("v1", "Node");
    app.apply(Update::Opened(Opened {
        name: "nodes".to_owned(),
        kind,
        namespace: None,
        is_namespaced: false,
    }));

    let mut node = line("", "node-1", "True");
    node.key = ObjectKey {
        namespace: None,
        name: "node-1".to_owned(),
    };

    app.apply(rows(vec![node], vec![], true));
    let shown = screen(&mut app, None, (80, 24));
    assert!(
        shown.contains("nodes(cluster)[1]") && !shown.contains("NAMESPACE"),
        "{shown}"
    );
}
