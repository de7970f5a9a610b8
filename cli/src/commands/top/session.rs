//! Connects the keyboard, the servers and the screen.
//!
//! While the screen is paused, the tasks' updates are not received, so the tasks wait.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use k8s_openapi::jiff::Timestamp;
use operetta_host::cluster::connect;
use ratatui::DefaultTerminal;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{
        mpsc::{Receiver, Sender, channel},
        watch,
    },
    task::{AbortHandle, JoinSet, LocalSet},
    time::{Instant, MissedTickBehavior},
};

use super::{
    access::Access,
    app::{App, Request},
    draw::draw,
    feed, keys,
    keys::Input,
    pages,
    plugins::Replica,
    scrape,
    style::Palette,
    view::{Target, Update},
};
use crate::args::TopArgs;

/// The time between two drawings, unless the user presses a key.
const FRAME: Duration = Duration::from_millis(200);
/// How many updates may wait for the screen before tasks wait.
const WAITING: usize = 64;

/// Runs until the user quits, or the terminal is gone.
///
/// # Errors
/// Returns an error if the kubeconfig cannot be read, or the terminal fails.
pub async fn run(args: &TopArgs, target: Target) -> Result<()> {
    connect(&args.cluster).await?;
    let mut terminated = signal(SignalKind::terminate()).context("failed to handle SIGTERM")?;
    let mut terminal =
        ratatui::try_init().context("failed to use the terminal (--once needs none)")?;

    // The tasks of a view run on this thread, between drawings; informers have their own.
    let tasks = LocalSet::new();
    let ended = tokio::select! {
        ended = tasks.run_until(show(&mut terminal, args, target)) => ended,
        _ = terminated.recv() => Ok(()),
    };

    ratatui::restore();
    ended
}

async fn show(terminal: &mut DefaultTerminal, args: &TopArgs, target: Target) -> Result<()> {
    let args = Arc::new(args.clone());
    let palette = Palette {
        has_colors: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    };

    let mut keys = keys::read();
    let mut view = View::open(&args, target.clone());
    let mut app = App::new(target);
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);

    // None while the screen is up to date.
    let mut due = Some(Instant::now());

    loop {
        let soon = || Some(Instant::now() + FRAME);
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                let problem = view.problem.borrow().clone();
                terminal.draw(|frame| draw(frame, &mut app, problem.as_deref(), palette, Timestamp::now()))?;
                due = None;
            }
            input = keys.recv() => {
                // The terminal is gone.
                let Some(input) = input else { return Ok(()) };
                let request = if let Input::Key(key) = input { app.key(key, Timestamp::now()) } else { None };
                match request {
                    Some(Request::Quit) => return Ok(()),
                    Some(Request::Open(target)) => {
                        view = View::open(&args, target.clone());
                        app = App::new(target);
                    }
                    Some(request) => view.ask(request, &app),
                    None => {}
                }
                due = Some(Instant::now());
            }
            Some(update) = view.updates.recv(), if app.paused.is_none() => {
                app.apply(update);
                view.set_replicas(&app);
                due = due.or_else(soon);
            }
            Ok(()) = view.problem.changed() => due = due.or_else(soon),
            _ = seconds.tick() => due = due.or_else(soon),
        }
    }
}

/// The tasks of a view; dropping this ends them.
struct View {
    args: Arc<TopArgs>,
    target: Target,
    updates: Receiver<Update>,
    problem: watch::Receiver<Option<String>>,
    replicas: watch::Sender<Option<Vec<Replica>>>,
    out: Sender<Update>,
    tasks: JoinSet<()>,
    /// The task that follows a log.
    log: Option<AbortHandle>,
}

impl View {
    fn open(args: &Arc<TopArgs>, target: Target) -> Self {
        let (out, updates) = channel(WAITING);
        let (problem, problems) = feed::problem();
        let (replicas, _) = watch::channel(None);
        let mut tasks = JoinSet::new();

        let (objects, wanted, sent) = (args.clone(), target.clone(), out.clone());
        tasks.spawn_local(
            async move { feed::follow(&objects.cluster, &wanted, &sent, &problem).await },
        );

        if target.is_plugins() {
            let (args, target, replicas, out) = (
                args.clone(),
                target.clone(),
                replicas.subscribe(),
                out.clone(),
            );
            tasks.spawn_local(async move {
                let access = Access::new(&args.cluster, &args.host, &target);
                scrape::follow(&access, replicas, args.delay, &out).await;
            });
        }

        Self {
            args: args.clone(),
            target,
            updates,
            problem: problems,
            replicas,
            out,
            tasks,
            log: None,
        }
    }

    /// Passes the known replicas to the scrapes; None without a Plugin.
    fn set_replicas(&self, app: &App) {
        let Some(plugins) = app.plugins.as_ref().filter(|_| app.is_loaded()) else {
            return;
        };

        let found = (!app.table.rows().is_empty()).then_some(plugins.replicas());
        self.replicas.send_if_modified(|known| {
            let is_new = *known != found;
            *known = found;
            is_new
        });
    }

    /// Starts a task for a page.
    fn ask(&mut self, request: Request, app: &App) {
        let (args, target, out) = (self.args.clone(), self.target.clone(), self.out.clone());
        while self.tasks.try_join_next().is_some() {}
        match request {
            Request::Read(key) => {
                let Some(kind) = app.opened.as_ref().map(|opened| opened.kind.clone()) else {
                    return;
                };

                self.tasks.spawn_local(async move {
                    let access = Access::new(&args.cluster, &args.host, &target);
                    pages::read(&access, &kind, key, &out).await;
                });
            }
            Request::Follow(key) => {
                self.unfollow();
                self.log = Some(self.tasks.spawn_local(async move {
                    let access = Access::new(&args.cluster, &args.host, &target);
                    pages::follow(&access, key, &out).await;
                }));
            }
            Request::Unfollow => self.unfollow(),
            Request::Quit | Request::Open(_) => {}
        }
    }

    fn unfollow(&mut self) {
        self.log.take().into_iter().for_each(|task| task.abort());
    }
}
