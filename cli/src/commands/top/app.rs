//! The state of the screen: a table, the pages above it and the prompt. No I/O.
//!
//! Keys are those of k9s and htop. A key changes the state at once, or returns a [`Request`] for
//! something that needs a server.

use std::collections::VecDeque;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use k8s_openapi::jiff::Timestamp;
use operetta_core::object::ObjectKey;
use operetta_host::terminal;
use operetta_kube::client::table::Column as ApiColumn;

use super::{
    filter::Filter,
    objects,
    page::{Opening, Page, Prompt},
    plugins::{Plugins, columns},
    table::{Health, Table},
    text::printable_lines,
    view::{Opened, Target, Update},
};
use crate::commands::watch::Change;

/// The maximum number of lines of a log that are kept.
const LOG_LINES: usize = 1_000;

/// Something that only a server can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// End the program.
    Quit,
    /// Show other objects.
    Open(Target),
    /// Read an object.
    Read(ObjectKey),
    /// Follow the log of a Plugin.
    Follow(ObjectKey),
    /// Stop following a log.
    Unfollow,
}

/// The result of the last scrapes.
#[derive(Debug, Default)]
pub struct Scraped {
    /// The replicas whose metrics are shown.
    pub replicas: Vec<String>,
    /// Why metrics are missing.
    pub missing: Vec<String>,
}

/// The state of the screen.
pub struct App {
    /// The objects that the user wants to see.
    pub target: Target,
    /// The kind as it is served; None until it is found.
    pub opened: Option<Opened>,
    /// The rows.
    pub table: Table,
    /// The Plugins; None if the view has another kind.
    pub plugins: Option<Plugins>,
    /// The pages above the table, the uppermost last.
    pub pages: Vec<Opening>,
    /// The line in which the user types.
    pub prompt: Option<Prompt>,
    /// When the screen was paused.
    pub paused: Option<Timestamp>,
    /// The last scrapes of the host.
    pub scraped: Scraped,
    /// The columns as the API server names them, none for Plugins; None until the objects are
    /// known.
    columns: Option<Vec<ApiColumn>>,
    /// The height of the table or text, in lines, as last drawn.
    pub page_height: usize,
}

impl App {
    /// Creates the state of a view whose objects are not known yet.
    pub fn new(target: Target) -> Self {
        let is_plugins = target.is_plugins();
        Self {
            table: if is_plugins {
                Plugins::table(target.all_namespaces)
            } else {
                Table::sorted_by("NAME", false)
            },
            plugins: is_plugins.then(Plugins::default),
            target,
            opened: None,
            pages: Vec::new(),
            prompt: None,
            paused: None,
            scraped: Scraped::default(),
            columns: None,
            page_height: 10,
        }
    }

    /// Reports whether the objects are known.
    pub fn is_loaded(&self) -> bool {
        self.columns.is_some()
    }

    /// Reports whether rows have a column for the namespace.
    pub fn has_namespaces(&self) -> bool {
        self.target.all_namespaces
            && self
                .opened
                .as_ref()
                .is_none_or(|opened| opened.is_namespaced)
    }

    /// Applies an update.
    pub fn apply(&mut self, update: Update) {
        match update {
            Update::Opened(opened) => self.opened = Some(opened),
            Update::Rows { .. } => self.apply_rows(update),
            Update::Plugins { events, is_whole } => {
                let Some(plugins) = &mut self.plugins else {
                    return;
                };

                if is_whole {
                    plugins.clear();
                }

                events.iter().for_each(|event| plugins.apply(event));
                self.columns = Some(Vec::new());
                self.renew();
            }
            Update::Scrapes { at, round } => {
                let Some(plugins) = &mut self.plugins else {
                    return;
                };

                self.scraped.replicas = round
                    .iter()
                    .filter(|(_, found)| found.is_ok())
                    .map(|(name, _)| terminal::line(name))
                    .collect();
                self.scraped.missing = round
                    .iter()
                    .filter_map(|(_, found)| found.as_ref().err())
                    .map(|error| terminal::line(error))
                    .collect();
                self.scraped.missing.dedup();

                plugins.meter.record(
                    at,
                    round
                        .into_iter()
                        .map(|(name, found)| (name, found.ok()))
                        .collect(),
                );

                self.renew();
            }
            Update::Gone => {
                self.table.replace(Vec::new());
                self.plugins.iter_mut().for_each(Plugins::clear);
                self.opened = None;
            }
            Update::Document(key, found) => {
                let text = found.map_or_else(
                    |error| vec![terminal::line(&error)],
                    |text| printable_lines(&text),
                );

                for Opening { page, .. } in &mut self.pages {
                    if let Page::Document(of, lines) = page
                        && *of == key
                    {
                        *lines = Some(text.clone());
                    }
                }
            }
            Update::LogBegins(key) => self.log(&key, |lines| lines.clear()),
            Update::Log(key, added) => self.log(&key, |lines| {
                lines.extend(added.iter().flat_map(|line| printable_lines(line)));
                lines.drain(..lines.len().saturating_sub(LOG_LINES));
            }),
        }
    }

    fn apply_rows(&mut self, update: Update) {
        let Update::Rows {
            columns,
            lines,
            health,
            is_whole,
            at,
        } = update
        else {
            return;
        };

        let has_namespaces = self.has_namespaces();
        if is_whole || self.columns.as_ref() != Some(&columns) {
            self.table.columns = objects::columns(&columns, has_namespaces);
        }

        if is_whole {
            self.table.replace(Vec::new());
        }

        for line in lines {
            if line.change == Change::Deleted {
                self.table.remove(&line.key);
                continue;
            }

            let before = self
                .table
                .row_mut(&line.key)
                .map_or(Health::Unknown, |row| row.health);
            self.table
                .put(objects::row(&line, &columns, has_namespaces, before, at));
        }

        self.columns = Some(columns);

        for (key, health) in health {
            self.table
                .row_mut(&key)
                .into_iter()
                .for_each(|row| row.health = health);
        }
    }

    /// Rebuilds the rows of Plugins.
    fn renew(&mut self) {
        if let Some(plugins) = &self.plugins {
            let rows = plugins.rows(self.target.all_namespaces);
            self.table.replace(rows);
        }
    }

    fn log(&mut self, key: &ObjectKey, change: impl Fn(&mut VecDeque<String>)) {
        for Opening { page, .. } in &mut self.pages {
            if let Page::Log(of, lines) = page
                && of == key
            {
                change(lines);
            }
        }
    }

    /// Handles a key. `now` is the time, for a pause.
    pub fn key(&mut self, key: KeyEvent, now: Timestamp) -> Option<Request> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Some(Request::Quit),
                KeyCode::Char('f') => self.scroll(self.page_height.cast_signed()),
                KeyCode::Char('b') => self.scroll(-self.page_height.cast_signed()),
                _ => None,
            };
        }

        if self.prompt.is_some() {
            return self.type_key(key.code);
        }

        match key.code {
            KeyCode::Up | KeyCode::Char('k') => self.scroll(-1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll(1),
            KeyCode::PageUp => self.scroll(-self.page_height.cast_signed()),
            KeyCode::PageDown => self.scroll(self.page_height.cast_signed()),
            KeyCode::Home | KeyCode::Char('g') => self.scroll(isize::MIN / 2),
            KeyCode::End | KeyCode::Char('G') => self.scroll(isize::MAX / 2),
            KeyCode::Char(' ') => {
                self.paused = if self.paused.is_some() {
                    None
                } else {
                    Some(now)
                };
                None
            }
            KeyCode::Char('?') | KeyCode::F(1) => self.open(Page::Help),
            KeyCode::Char(':') => self.ask(Prompt::Kind(String::new())),
            _ if self.pages.is_empty() => self.table_key(key.code),
            _ => self.page_key(key.code),
        }
    }

    /// Handles a key in the table.
    fn table_key(&mut self, code: KeyCode) -> Option<Request> {
        let is_plugins = self.plugins.is_some();

        match code {
            KeyCode::Char('q') | KeyCode::F(10) => return Some(Request::Quit),
            KeyCode::Esc => self.table.set_filter(Filter::default()),
            KeyCode::Char('/') | KeyCode::F(4) => {
                return self.ask(Prompt::Filter(self.table.filter().text().to_owned()));
            }
            KeyCode::Char('n') => return self.ask(Prompt::Namespace(String::new())),
            KeyCode::Char('0') => {
                return Some(Request::Open(Target {
                    all_namespaces: true,
                    ..self.target.clone()
                }));
            }
            KeyCode::Enter => {
                let key = self.table.selected()?;
                return if is_plugins {
                    self.open(Page::Details(key))
                } else {
                    self.read(key)
                };
            }
            KeyCode::Char('d' | 'y') => {
                let key = self.table.selected()?;
                return self.read(key);
            }
            KeyCode::Char('l') if is_plugins => {
                let key = self.table.selected()?;
                return self.follow(key);
            }
            KeyCode::Char('P') => self.table.sort_by(columns::CPU, true),
            KeyCode::Char('M') => self.table.sort_by(columns::MEMORY, true),
            KeyCode::Char('R') => self.table.sort_by(columns::RATE, true),
            KeyCode::Char('E') => self.table.sort_by(columns::ERRORS, true),
            KeyCode::Char('U') => self.table.sort_by(columns::QUEUE, true),
            KeyCode::Char('N') => self.table.sort_by("NAME", false),
            KeyCode::Char('A') => self.table.sort_by("AGE", false),
            KeyCode::Char('<') => self.table.sort_by_neighbor(-1),
            KeyCode::Char('>') => self.table.sort_by_neighbor(1),
            KeyCode::Char('I') => self.table.invert(),
            _ => {}
        }

        None
    }

    /// Handles a key on a page.
    fn page_key(&mut self, code: KeyCode) -> Option<Request> {
        let key = match self.pages.last().map(|opening| &opening.page) {
            Some(Page::Details(key)) => Some(key.clone()),
            _ => None,
        };

        match (code, key) {
            (KeyCode::Esc | KeyCode::Char('q'), _) => {
                let closed = self.pages.pop();
                closed
                    .filter(|closed| matches!(closed.page, Page::Log(..)))
                    .map(|_| Request::Unfollow)
            }
            (KeyCode::Char('d' | 'y'), Some(key)) => self.read(key),
            (KeyCode::Char('l'), Some(key)) => self.follow(key),
            _ => None,
        }
    }

    /// Handles a key in the prompt.
    fn type_key(&mut self, code: KeyCode) -> Option<Request> {
        let prompt = self.prompt.as_mut()?;
        let (Prompt::Filter(text) | Prompt::Kind(text) | Prompt::Namespace(text)) = prompt;

        match code {
            KeyCode::Char(letter) => text.push(letter),
            KeyCode::Backspace if text.is_empty() => self.prompt = None,
            KeyCode::Backspace => drop(text.pop()),
            KeyCode::Esc => {
                if let Some(Prompt::Filter(_)) = self.prompt.take() {
                    self.table.set_filter(Filter::default());
                }
                return None;
            }
            KeyCode::Enter => {
                let typed = self.prompt.take()?;
                return self.enter(&typed);
            }
            _ => {}
        }

        if let Some(Prompt::Filter(text)) = &self.prompt {
            self.table.set_filter(Filter::new(text));
        }

        None
    }

    /// Handles what was typed.
    fn enter(&mut self, typed: &Prompt) -> Option<Request> {
        let target = match typed {
            Prompt::Filter(_) => return None,
            Prompt::Namespace(text) => match text.trim() {
                "" => return None,
                "all" | "*" => Target {
                    all_namespaces: true,
                    ..self.target.clone()
                },
                text => Target {
                    namespace: Some(text.to_owned()),
                    all_namespaces: false,
                    ..self.target.clone()
                },
            },
            Prompt::Kind(text) => {
                let mut words = text.split_whitespace();
                let kind = words.next()?.to_owned();

                if ["q", "q!", "quit", "exit"].contains(&kind.as_str()) {
                    return Some(Request::Quit);
                }

                let target = Target {
                    kind,
                    labels: String::new(),
                    ..self.target.clone()
                };

                match words.next() {
                    None => target,
                    Some("all" | "-A" | "*") => Target {
                        all_namespaces: true,
                        ..target
                    },
                    Some(namespace) => Target {
                        namespace: Some(namespace.to_owned()),
                        all_namespaces: false,
                        ..target
                    },
                }
            }
        };

        Some(Request::Open(target))
    }

    fn ask(&mut self, prompt: Prompt) -> Option<Request> {
        self.prompt = Some(prompt);
        None
    }

    fn open(&mut self, page: Page) -> Option<Request> {
        if self.pages.last().is_none_or(|opening| opening.page != page) {
            self.pages.push(Opening {
                follows: matches!(page, Page::Log(..)),
                page,
                first: 0,
            });
        }
        None
    }

    /// Opens an object as YAML. A paused screen resumes, to show it.
    fn read(&mut self, key: ObjectKey) -> Option<Request> {
        self.paused = None;
        self.open(Page::Document(key.clone(), None));
        Some(Request::Read(key))
    }

    /// Opens a log, as [`Self::read`] does.
    fn follow(&mut self, key: ObjectKey) -> Option<Request> {
        self.paused = None;
        self.open(Page::Log(key.clone(), VecDeque::new()));
        Some(Request::Follow(key))
    }

    /// Moves the selection, or scrolls a page.
    fn scroll(&mut self, lines: isize) -> Option<Request> {
        match self.pages.last_mut() {
            None => self.table.move_by(lines),
            Some(opening) => {
                opening.first = opening.first.saturating_add_signed(lines);
                opening.follows = matches!(opening.page, Page::Log(..)) && lines > 1_000_000;
            }
        }
        None
    }
}
