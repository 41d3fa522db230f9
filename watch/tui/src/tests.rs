// SPDX-License-Identifier: GPL-2.0-only
//! Screens of known figures, at every size, against those in `golden/`; UPDATE_EXPECT=1 renews them.

use crate::app::{Action, App, Settings, View, HISTORY};
use crate::draw::{draw, HEIGHT_MIN, WIDTH_MIN};
use crate::Look;
use ceasefire_watch_model::{
    Cause, Class, ClassCoverage, Coverage, Histogram, Kind, Maximum, Overhead, Pair, ProgramCost, Sender,
    Site, Snapshot, Stacks, Tally, Task, Victim,
};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use expect_test::expect_file;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use ratatui::Terminal;
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;

/// Thread, name, cause, stack, shootdowns a second; each has one target.
const SENDERS: [(u32, &str, Cause, u32, u64); 4] = [
    (101, "java", Cause::MadviseDontneed, 1, 40_000),
    (101, "java", Cause::Munmap, 2, 1_200),
    (202, "a-very-long-name", Cause::Cow, 3, 250),
    (303, "kworker/0:1", Cause::Vmalloc, 4, 10),
];

fn class(cause: &Cause) -> Class {
    if *cause == Cause::Vmalloc {
        Class::KernelRange
    } else {
        Class::User
    }
}

fn task(tid: u32, comm: &str) -> Task {
    Task { tgid: tid, tid, comm: comm.into(), cgroup: 1 }
}

fn tally(n: u64) -> Tally {
    Tally {
        shootdowns: n,
        targets: n,
        pages: n * 8,
        entries: n * 8,
        wait_ns: n * 4_000,
        wait_ns_max: 90_000,
        wait_ns_max_is: Maximum::Exact,
    }
}

fn times(n: u64, ns: u64) -> Histogram {
    let mut buckets = [0; 20];
    buckets[Histogram::bucket_of(ns)] = n;
    Histogram::new(&buckets)
}

/// After so many seconds of the same.
fn snapshot(seconds: u64) -> Snapshot {
    let site = |(_, _, cause, stack, rate): &(u32, &str, Cause, u32, u64)| {
        let n = rate * seconds;
        Site {
            class: class(cause),
            cause: cause.clone(),
            kind: Kind::Ranged,
            why_full: None,
            freed_tables: false,
            kernel_stack: Some(*stack),
            function: None,
            syscall: None,
            argument: 0,
            tally: tally(n),
            delivery_ns: n * 2_500,
            handler_ns: n * 700,
            calls: 0,
            call_ns: 0,
            pages: times(n, 8),
            targets: times(n, 1),
            wait: times(n, 4_000),
            delivery: times(n, 2_500),
            handler: times(n, 700),
        }
    };
    let sender = |(tid, name, cause, stack, rate): &(u32, &str, Cause, u32, u64)| Sender {
        task: task(*tid, name),
        cpu: 0,
        class: class(cause),
        cause: cause.clone(),
        kind: Kind::Ranged,
        freed_tables: false,
        kernel_stack: Some(*stack),
        user_stack: None,
        function: None,
        syscall: None,
        argument: 0,
        tally: tally(rate * seconds),
    };
    let pair = |sender_tid: u32, class: Class, victim_tid: u32, rate: u64| Pair {
        class,
        sender_tid,
        sender_cpu: 0,
        victim_tid,
        victim_cpu: 1,
        interruptions: rate * seconds,
        stolen_ns: rate * seconds * 700,
        stolen_ns_max: 30_000,
        stolen_ns_max_is: Maximum::Exact,
    };
    let victim = |tid: u32, name: &str, class: Class, rate: u64| Victim {
        cpu: 1,
        task: task(tid, name),
        class,
        interruptions: rate * seconds,
        delivery_ns: rate * seconds * 2_500,
        stolen_ns: rate * seconds * 700,
        stolen_ns_max: 30_000,
        stolen_ns_max_is: Maximum::Exact,
        stolen: times(rate * seconds, 700),
    };
    let covered = |class: Class, rate: u64, kernel: Option<u64>| ClassCoverage {
        class,
        requests: Some(rate * seconds),
        shootdowns: rate * seconds,
        queued: rate * seconds,
        handled: Some(rate * seconds),
        filtered: 0,
        kernel,
        source: "a counter".into(),
    };
    let frames = |names: &str| names.split(' ').map(str::to_string).collect::<Vec<_>>();
    let kernel = [
        (1, frames("flush_tlb_mm_range tlb_finish_mmu do_madvise __x64_sys_madvise")),
        (2, frames("flush_tlb_mm_range tlb_finish_mmu vms_clear_ptes __x64_sys_munmap")),
        (3, frames("flush_tlb_mm_range ptep_clear_flush wp_page_copy do_wp_page")),
    ];
    Snapshot {
        taken_ns: seconds * SECOND,
        kernel: "6.12.117".into(),
        cpus: 2,
        has_latencies: true,
        sites: SENDERS.iter().map(site).collect(),
        senders: SENDERS.iter().map(sender).collect(),
        pairs: vec![
            pair(101, Class::User, 900, 41_200),
            pair(202, Class::User, 0, 250),
            pair(303, Class::KernelRange, 900, 10),
        ],
        victims: vec![
            victim(900, "postgres", Class::User, 41_200),
            victim(0, "", Class::User, 250),
            victim(900, "postgres", Class::KernelRange, 10),
        ],
        stacks: Stacks { kernel: kernel.into(), user: Default::default() },
        coverage: Coverage {
            classes: vec![
                covered(Class::User, 41_450, Some(41_452 * seconds)),
                covered(Class::KernelRange, 10, None),
                covered(Class::Own, 0, None),
            ],
            overhead: Overhead {
                programs: vec![ProgramCost {
                    name: "queued".into(),
                    runs: seconds,
                    run_ns: seconds * SECOND / 500,
                }],
                timed_ns: seconds * SECOND / 20,
                own_cpu_ns: seconds * SECOND / 250,
                own_rss_kib_max: 21 << 10,
            },
            blind: vec!["paravirtual flushes of preempted virtual CPUs are not seen".into()],
            ..Coverage::default()
        },
        ..Snapshot::default()
    }
}

const PLAIN: Look = Look { color: false, unicode: false };

fn app(look: Look) -> App {
    let settings = Settings { look, interval: Duration::from_secs(1), causes: Vec::new(), cross_calls: true };
    let mut app = App::new(snapshot(0), settings);
    (1..=5).for_each(|seconds| app.take(snapshot(seconds)));
    app
}

fn press(app: &mut App, code: KeyCode) -> Action {
    app.key(KeyEvent::new(code, KeyModifiers::NONE))
}

fn type_in(app: &mut App, text: &str) {
    for letter in text.chars() {
        press(app, KeyCode::Char(letter));
    }
}

fn screen(app: &App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| draw(frame, app)).expect("a picture");
    let cells = terminal.backend().buffer().clone();
    let row = |y: u16| (0..width).map(|x| cells[(x, y)].symbol()).collect::<String>().trim_end().to_string();
    (0..height).map(row).collect::<Vec<_>>().join("\n") + "\n"
}

fn compare(name: &str, screen: &str) {
    expect_file![format!("{}/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"))].assert_eq(screen);
}

const SIZES: [(u16, u16); 2] = [(80, 24), (40, 20)];

/// Every view and what lies over it, at both sizes.
#[test]
fn screens_are_as_they_were() {
    for (width, height) in SIZES {
        let see = |name: &str, app: &App| {
            let screen = screen(app, width, height);
            assert!(screen.contains("saw 207,250 of 207,260"), "{name} has no coverage:\n{screen}");
            assert!(screen.contains("lost nothing"), "{name} does not say what was lost:\n{screen}");
            assert!(screen.contains("overhead: probes 4.00 %"), "{name} has no overhead:\n{screen}");
            compare(&format!("{name}-{width}"), &screen);
        };
        let mut app = app(PLAIN);
        for (key, view) in ['1', '2', '3', '4'].into_iter().zip(View::ALL) {
            press(&mut app, KeyCode::Char(key));
            assert_eq!(app.view, view);
            see(view.name(), &app);
            press(&mut app, KeyCode::Enter);
            see(&format!("{}-detail", view.name()), &app);
            press(&mut app, KeyCode::Esc);
        }
        press(&mut app, KeyCode::Char('?'));
        see("help", &app);
        press(&mut app, KeyCode::Esc);
        press(&mut app, KeyCode::Char('1'));
        press(&mut app, KeyCode::Char('f'));
        type_in(&mut app, "JAVA");
        see("filter", &app);
        press(&mut app, KeyCode::Enter);
        press(&mut app, KeyCode::Char('p'));
        see("filtered-paused", &app);
    }
}

/// No size panics; below the least it is said; from there on the last lines stand.
#[test]
fn every_size_is_drawn_or_refused() {
    let mut app = app(PLAIN);
    for keys in ["1", "2", "3", "4", "?", "\n1\n"] {
        for key in keys.chars() {
            press(&mut app, if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) });
        }
        for (width, height) in (1..130).flat_map(|width| [(width, 1), (width, 11), (width, 12), (width, 50)])
        {
            let screen = screen(&app, width, height);
            let is_small = width < WIDTH_MIN || height < HEIGHT_MIN;
            let letters: String = screen.split_whitespace().collect();
            if !is_small {
                assert!(letters.contains("saw207,250of207,260usertargets"), "{width} x {height}:\n{screen}");
                assert!(!screen.contains("needs"), "{width} x {height}:\n{screen}");
            } else if width >= 20 && height >= 11 {
                assert!(letters.contains("topneeds40x12"), "{width} x {height}:\n{screen}");
            }
        }
    }
}

#[test]
fn color_is_used_only_where_it_is_wanted() {
    for (color, expected) in [(true, true), (false, false)] {
        let app = app(Look { color, unicode: true });
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a terminal");
        terminal.draw(|frame| draw(frame, &app)).expect("a picture");
        let cells = terminal.backend().buffer();
        let is_colored = cells.content.iter().any(|cell| (cell.fg, cell.bg) != (Color::Reset, Color::Reset));
        assert_eq!(is_colored, expected);
    }
}

#[test]
fn the_selected_row_is_followed_when_rows_move() {
    let mut app = app(PLAIN);
    press(&mut app, KeyCode::Char('j'));
    let table = app.table();
    let followed = table.rows[app.cursor(&table)].key.clone();
    assert_eq!(app.cursor(&table), 1);
    for _ in 0..table.columns.len() {
        press(&mut app, KeyCode::Char('s'));
        let table = app.table();
        assert_eq!(table.rows[app.cursor(&table)].key, followed);
    }
    // A row that the filter leaves out gives way to the first.
    press(&mut app, KeyCode::Char('f'));
    type_in(&mut app, "java");
    press(&mut app, KeyCode::Enter);
    let table = app.table();
    assert_eq!((table.rows.len(), app.cursor(&table), table.left_out), (1, 0, 2));
    press(&mut app, KeyCode::Esc);
    assert_eq!(app.table().left_out, 0);
}

#[test]
fn every_column_sorts() {
    let mut app = app(PLAIN);
    for view in ['1', '2', '3', '4'] {
        press(&mut app, KeyCode::Char(view));
        let mut seen = Vec::new();
        for _ in 0..8 {
            press(&mut app, KeyCode::Char('s'));
            let table = app.table();
            let by = table.sorted_by;
            seen.push(by);
            let is_sorted = table.rows.windows(2).all(|rows| match table.columns[by].is_text {
                true => rows[0].cells[by].text <= rows[1].cells[by].text,
                false => rows[0].cells[by].order >= rows[1].cells[by].order,
            });
            assert!(is_sorted, "view {view}, column {by}: {:?}", table.rows);
        }
        seen.sort_unstable();
        seen.dedup();
        let columns = if view == '4' { 3 } else { app.table().columns.len() };
        assert_eq!(seen.len(), columns, "view {view}: s reaches every column");
    }
}

#[test]
fn a_pause_loses_nothing_and_a_reset_everything() {
    let mut app = app(PLAIN);
    assert_eq!(press(&mut app, KeyCode::Char('p')), Action::Draw);
    assert!(app.is_paused);
    assert_eq!(press(&mut app, KeyCode::Char('p')), Action::Look);
    app.take(snapshot(9));
    assert_eq!(app.windows.total.tally(Class::User).targets, 9 * 41_450);
    assert_eq!(app.windows.last.window_ns, 4 * SECOND);
    assert_eq!(press(&mut app, KeyCode::Char('r')), Action::Reset);
    app.reset(snapshot(9));
    assert_eq!(app.windows.total.tally(Class::User).targets, 0);
    assert!(screen(&app, 80, 24).contains("no shootdowns for 0 ns"));
    app.take(snapshot(10));
    assert_eq!(app.windows.total.tally(Class::User).targets, 41_450);
}

#[test]
fn the_history_is_bounded_and_shown() {
    let mut app = app(PLAIN);
    (6..500).for_each(|seconds| app.take(snapshot(seconds)));
    press(&mut app, KeyCode::Enter);
    let screen = screen(&app, 80, 24);
    assert!(screen.contains("history of received/s, at most 41,200"), "{screen}");
    assert!(screen.contains(&format!("|{}|", "@".repeat(HISTORY))), "{screen}");
}

#[test]
fn a_cause_leaves_other_senders_and_their_victims_out() {
    let settings = Settings {
        look: PLAIN,
        interval: Duration::from_secs(1),
        causes: vec![Cause::Cow],
        cross_calls: true,
    };
    let mut app = App::new(snapshot(0), settings);
    app.take(snapshot(1));
    let senders: Vec<String> = app.table().rows.iter().map(|row| row.cells[0].text.clone()).collect();
    assert_eq!(senders, ["a-very-long-name 202"]);
    press(&mut app, KeyCode::Char('2'));
    let victims: Vec<String> = app.table().rows.iter().map(|row| row.cells[0].text.clone()).collect();
    assert_eq!(victims, ["idle"]);
}

#[test]
fn other_cross_calls_come_and_go_with_a_key() {
    let with_calls = |seconds: u64| {
        let mut snapshot = snapshot(seconds);
        let sender = Sender {
            class: Class::CrossCall,
            cause: Cause::Membarrier,
            function: Some("ipi_mb".into()),
            ..snapshot.senders[0].clone()
        };
        snapshot.senders.push(sender);
        snapshot
    };
    let settings =
        Settings { look: PLAIN, interval: Duration::from_secs(1), causes: Vec::new(), cross_calls: false };
    let mut app = App::new(with_calls(0), settings);
    app.take(with_calls(1));
    assert!(!screen(&app, 80, 24).contains("(cross-call)"));
    assert_eq!(press(&mut app, KeyCode::Char('x')), Action::Look);
    app.take(with_calls(2));
    assert!(screen(&app, 80, 24).contains("java 101 (cross-call)"), "{}", screen(&app, 80, 24));
}

#[test]
fn no_key_panics_and_only_two_quit() {
    let mut app = app(PLAIN);
    let codes = (' '..='~').map(KeyCode::Char).chain([
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::Tab,
        KeyCode::BackTab,
        KeyCode::Backspace,
        KeyCode::Home,
        KeyCode::End,
        KeyCode::PageUp,
        KeyCode::PageDown,
        KeyCode::F(1),
        KeyCode::Null,
    ]);
    let codes: Vec<KeyCode> = codes.collect();
    // Every key after every key, whatever state the ones before left.
    for first in &codes {
        for second in &codes {
            for code in [*first, *second] {
                let is_quit = press(&mut app, code) == Action::Quit;
                assert!(!is_quit || code == KeyCode::Char('q'), "{code:?}");
            }
        }
        screen(&app, 80, 24);
        screen(&app, 40, 12);
    }
    assert_eq!(app.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Action::Quit);
}

#[test]
fn the_sending_side_alone_says_what_is_missing() {
    let blind = |seconds: u64| {
        let mut snapshot = snapshot(seconds);
        snapshot.has_latencies = false;
        (snapshot.victims, snapshot.pairs) = (Vec::new(), Vec::new());
        snapshot
    };
    let settings =
        Settings { look: PLAIN, interval: Duration::from_secs(1), causes: Vec::new(), cross_calls: true };
    let mut app = App::new(blind(0), settings);
    app.take(blind(1));
    press(&mut app, KeyCode::Char('2'));
    assert!(screen(&app, 80, 24).contains("only the sending side is watched"));
}

#[test]
fn many_rows_scroll_and_a_wide_matrix_turns() {
    let many = |seconds: u64| {
        let mut snapshot = snapshot(seconds);
        let (sender, pair) = (snapshot.senders[0].clone(), snapshot.pairs[0].clone());
        for tid in 1000..1100 {
            snapshot.senders.push(Sender { task: task(tid, "worker"), ..sender.clone() });
            snapshot.pairs.push(Pair {
                victim_tid: tid,
                interruptions: tid as u64 * seconds,
                ..pair.clone()
            });
        }
        snapshot
    };
    let settings =
        Settings { look: PLAIN, interval: Duration::from_secs(1), causes: Vec::new(), cross_calls: true };
    let mut app = App::new(many(0), settings);
    app.take(many(1));
    press(&mut app, KeyCode::Char('G'));
    let last = screen(&app, 40, 20);
    assert!(last.contains("> kworker/0:1"), "{last}");
    press(&mut app, KeyCode::Char('4'));
    let before = screen(&app, 80, 24);
    press(&mut app, KeyCode::Right);
    let after = screen(&app, 80, 24);
    assert!(before.contains("postgres 900") && !after.contains("postgres 900"), "{before}{after}");
    for _ in 0..500 {
        press(&mut app, KeyCode::Right);
    }
    assert!(screen(&app, 80, 24).contains("worker"), "the last victim stays");
    for _ in 0..500 {
        press(&mut app, KeyCode::Left);
    }
    assert_eq!(screen(&app, 80, 24), before);
}
