//! `portunus top` in a terminal: owns the screen and the keys while it runs, and gives the terminal back however it ends. What is on the screen is `pages.rs`'s.
//!
//! Threads of their own read the server's events, its other views, and signals; none is waited for at the end, since a server may be silent.

use std::io;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use super::pages::{Screen, VIEWS};
use crate::command::control::Control;
use crate::command::show::fail;

/// Between two looks at the keyboard.
const LOOK: Duration = Duration::from_millis(50);

/// Between two looks at the views that events do not carry, and before a server that is away is asked again.
const REFRESH: Duration = Duration::from_secs(2);

/// What happens beside keys.
enum News {
    /// The server's event.
    Event(Value),
    /// A view that events do not carry.
    View(&'static str, Value),
    /// The server cannot be asked.
    Away(String),
    /// A signal says that it is over.
    End,
}

/// Shows a server until a key or a signal ends it.
pub fn run(control: &Control) -> ExitCode {
    let (sender, news) = mpsc::channel();
    // Before the screen is taken, so that a server that is not there is said as by any other command.
    if let Err(problem) = control.view("status") {
        return fail(&problem);
    }
    let started = start(control, &sender).and_then(|()| ratatui::try_init());
    let ended = started.and_then(|terminal| show(terminal, &news));
    ratatui::restore();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("cannot use the terminal: {error}")),
    }
}

fn start(control: &Control, sender: &Sender<News>) -> io::Result<()> {
    let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| thread::Builder::new().name(name.to_owned()).spawn(run);
    let (of_events, of_views, of_signals) = (sender.clone(), sender.clone(), sender.clone());
    let (control, same) = (control.clone(), control.clone());
    spawn("events", Box::new(move || follow(&control, &of_events)))?;
    spawn("views", Box::new(move || look(&same, &of_views)))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let signals = {
        let _inside = runtime.enter();
        [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal)
    };
    let [terminate, interrupt, hang_up] = signals;
    let (mut terminate, mut interrupt, mut hang_up) = (terminate?, interrupt?, hang_up?);
    spawn(
        "signals",
        Box::new(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                    _ = hang_up.recv() => {}
                }
            });
            // Nobody listens any more where it is over already.
            let _ = of_signals.send(News::End);
        }),
    )?;
    Ok(())
}

/// Reads events for as long as anybody wants them.
fn follow(control: &Control, news: &Sender<News>) {
    let mut is_wanted = true;
    while is_wanted {
        // A server bounds the life of a connection; the next one goes on.
        let outcome = control.events(|event| {
            is_wanted = news.send(News::Event(event)).is_ok();
            is_wanted
        });
        if let Err(problem) = outcome {
            is_wanted = news.send(News::Away(problem)).is_ok();
            thread::park_timeout(REFRESH);
        }
    }
}

/// Reads the other views. That a server is away is said by `follow`.
fn look(control: &Control, news: &Sender<News>) {
    loop {
        for name in VIEWS {
            if let Ok(view) = control.view(name)
                && news.send(News::View(name, view)).is_err()
            {
                return;
            }
        }
        thread::park_timeout(REFRESH);
    }
}

fn show(mut terminal: DefaultTerminal, news: &Receiver<News>) -> io::Result<()> {
    let mut screen = Screen::default();
    let mut is_new = true;
    loop {
        if is_new {
            terminal.draw(|frame| screen.draw(frame))?;
        }
        is_new = false;
        while event::poll(Duration::ZERO)? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    if is_end(key) {
                        return Ok(());
                    }
                    is_new |= screen.press(key.code);
                }
                Event::Resize(..) => is_new = true,
                _ => {}
            }
        }
        let mut next = news.recv_timeout(LOOK);
        loop {
            match next {
                Ok(News::End) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Ok(News::Event(event)) => screen.take(event),
                Ok(News::View(name, view)) => screen.take_view(name, view),
                Ok(News::Away(problem)) => screen.away(problem),
                Err(RecvTimeoutError::Timeout) => break,
            }
            is_new = true;
            next = news.recv_timeout(Duration::ZERO);
        }
    }
}

fn is_end(key: KeyEvent) -> bool {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) || is_control && matches!(key.code, KeyCode::Char('c' | 'd'))
}
