// SPDX-License-Identifier: GPL-2.0-only
//! Whether shootdowns are this host's problem, in words: the first line of a report.

use crate::numbers::{count, time};
use crate::stat;
use ceasefire_watch_model::{Cause, Class, Counts, Moment, Snapshot, Task};
use serde_json::{json, Value};
use std::collections::{BTreeMap, HashMap};

/// From this share of a thread's time on, they are a problem.
const MUCH: f64 = 0.01;
/// Below this one, they are none.
const LITTLE: f64 = 0.001;
/// Within its worst 10 ms, a thread that must answer in time notices so much.
const BURST: f64 = 0.05;
/// In less time chance decides.
const INTERRUPTIONS_MIN: u64 = 20;
/// Of what the kernel counted, so much must have been seen.
const SEEN_MIN: f64 = 0.99;
/// A CPU lost so many times what any thread did: then it was many threads.
const MANY: f64 = 2.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// Look elsewhere.
    Acquitted,
    /// They cost something, and explain nothing large.
    Minor,
    Accused,
    /// Too little was seen.
    Unknown,
}

impl Finding {
    pub fn name(self) -> &'static str {
        match self {
            Finding::Acquitted => "acquitted",
            Finding::Minor => "minor",
            Finding::Accused => "accused",
            Finding::Unknown => "unknown",
        }
    }

    fn of(share: f64) -> Finding {
        match share {
            much if much >= MUCH => Finding::Accused,
            some if some >= LITTLE => Finding::Minor,
            _ => Finding::Acquitted,
        }
    }
}

/// What one thread lost, or one CPU, by being interrupted or by waiting.
struct Loss {
    whose: String,
    share: f64,
    has_waited: bool,
    /// To whom, or for what; and which part of it.
    mostly: Option<(String, f64)>,
}

impl Loss {
    fn words(&self) -> String {
        let what = if self.has_waited { "waited" } else { "lost" };
        let mostly = match &self.mostly {
            Some((whom, part)) if self.has_waited => format!(", {} for {whom}", part_words(*part)),
            Some((whom, part)) => format!(", {} to {whom}", part_words(*part)),
            None => String::new(),
        };
        let of_it = if self.has_waited { "of the time for others to answer" } else { "of its time" };
        format!("{} {what} {} {of_it}{mostly}", self.whose, percent(self.share))
    }
}

fn part_words(part: f64) -> &'static str {
    match part {
        all if all >= 0.9 => "nearly all",
        most if most >= 0.5 => "most of it",
        _ => "the largest part",
    }
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        none if none < 0.01 => "less than 0.01 %".to_string(),
        few if few < 1.0 => format!("{few:.2} %"),
        more => format!("{more:.1} %"),
    }
}

pub struct Verdict {
    pub flushes: Finding,
    /// Of other cross calls, wake-ups aside.
    pub calls: Finding,
    pub share: f64,
    pub calls_share: f64,
    text: String,
}

impl Verdict {
    pub fn of(window: &Snapshot) -> Verdict {
        let flushes = worst(window, Class::is_flush);
        let calls = worst(window, |class| class == Class::CrossCall);
        let share_of = |loss: &Option<Loss>| loss.as_ref().map_or(0.0, |loss| loss.share);
        let (share, calls_share) = (share_of(&flushes), share_of(&calls));
        let burst = window.bursts.hundredth.filter(|worst| {
            worst.received >= INTERRUPTIONS_MIN && worst.stolen_ns as f64 >= BURST * 10_000_000.0
        });
        let mut finding = Finding::of(share);
        if burst.is_some() && finding != Finding::Accused {
            finding = Finding::Accused;
        }
        let unseen = unseen(window);
        if unseen.is_some() && finding != Finding::Accused {
            finding = Finding::Unknown;
        }
        let calls_finding = Finding::of(calls_share);
        let mut text = match (finding, &unseen, &flushes) {
            (Finding::Unknown, Some(why), _) => {
                format!("whether TLB shootdowns are a problem here cannot be told: {why}")
            }
            (Finding::Accused, _, Some(loss)) if share >= MUCH => {
                format!("TLB shootdowns are a problem here: {}", loss.words())
            }
            (Finding::Accused, _, _) => format!(
                "TLB shootdowns are a problem here in bursts: {}",
                burst.as_ref().map_or_else(String::new, |worst| moment("10 ms", worst))
            ),
            (Finding::Minor, _, Some(loss)) => {
                format!("TLB shootdowns cost a little here, and explain nothing large: {}", loss.words())
            }
            (_, _, Some(loss)) => format!(
                "TLB shootdowns are not this host's problem, look elsewhere: {}, and no thread more",
                loss.words()
            ),
            (_, _, None) => {
                "TLB shootdowns are not this host's problem, look elsewhere: no thread lost any that counts"
                    .into()
            }
        };
        if let (Finding::Accused | Finding::Minor, Some(loss)) = (calls_finding, &calls) {
            let are = if calls_finding == Finding::Accused { "are a problem" } else { "cost a little" };
            text.push_str(&format!("\nother cross calls {are} here: {}", loss.words()));
        }
        Verdict { flushes: finding, calls: calls_finding, share, calls_share, text }
    }

    /// One sentence, or one for flushes and one for other calls.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn json(&self) -> Value {
        json!({
            "flushes": self.flushes.name(), "share": self.share,
            "cross_calls": self.calls.name(), "cross_calls_share": self.calls_share,
            "text": self.text,
        })
    }
}

/// Verdict and bursts, as a report begins.
pub fn render(window: &Snapshot) -> String {
    let mut text = String::new();
    for line in Verdict::of(window).text().lines() {
        text.push_str(&format!("{}\n", capital(line)));
    }
    let worst: Vec<String> = [("second", window.bursts.second), ("10 ms", window.bursts.hundredth)]
        .into_iter()
        .filter_map(|(length, worst)| Some(moment(length, &worst?)))
        .collect();
    if !worst.is_empty() {
        text.push_str(&format!("{}.\n", capital(&worst.join("; "))));
    }
    text
}

fn capital(line: &str) -> String {
    let mut letters = line.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn moment(length: &str, worst: &Moment) -> String {
    format!("worst {length}: {} interruptions took {}", count(worst.received), time(worst.stolen_ns))
}

/// Why less was seen than there was.
fn unseen(window: &Snapshot) -> Option<String> {
    if !window.has_latencies {
        return Some("only senders were watched, and nobody's time".into());
    }
    if let Some(blind) = window.coverage.blind.iter().find(|sentence| sentence.contains("INVLPGB")) {
        return Some(blind.clone());
    }
    let user = window.coverage.class(Class::User)?;
    let own = window.coverage.class(Class::Own).map_or(0, |own| own.queued);
    let kernel = user.kernel.filter(|kernel| *kernel >= INTERRUPTIONS_MIN)?;
    let seen = user.queued.saturating_add(own);
    ((seen as f64) < kernel as f64 * SEEN_MIN)
        .then(|| format!("{} of {} interrupts were seen", count(seen), count(kernel)))
}

/// The thread that lost most, in either way; or the CPU, where many threads share the loss, such as those that live briefly.
/// A wake-up is for the sake of who is woken, and no loss.
fn worst(window: &Snapshot, is_one: impl Fn(Class) -> bool) -> Option<Loss> {
    let thread = worst_thread(window, &is_one);
    let cpu = worst_cpu(window, &is_one);
    let share = |loss: &Option<Loss>| loss.as_ref().map_or(0.0, |loss| loss.share);
    match share(&cpu) > MANY * share(&thread) {
        true => cpu,
        false => thread,
    }
}

/// While it was not idle.
fn worst_cpu(window: &Snapshot, is_one: &impl Fn(Class) -> bool) -> Option<Loss> {
    let whole = window.window_ns.max(1) as f64;
    let mut stolen: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for victim in window.victims.iter().filter(|v| is_one(v.class) && v.task.tid != 0) {
        let sum = stolen.entry(victim.cpu).or_default();
        *sum = (sum.0.saturating_add(victim.stolen_ns), sum.1.saturating_add(victim.interruptions));
    }
    let mut waited: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for sender in window.senders.iter().filter(|s| is_one(s.class) && s.task.tid != 0) {
        let sum = waited.entry(sender.cpu).or_default();
        *sum = (sum.0.saturating_add(sender.tally.wait_ns), sum.1.saturating_add(sender.tally.shootdowns));
    }
    let most = |sums: BTreeMap<u32, (u64, u64)>, has_waited: bool| {
        let sums = sums.into_iter().filter(|(_, (_, times))| *times >= INTERRUPTIONS_MIN);
        sums.max_by_key(|(_, (ns, _))| *ns).map(|(cpu, (ns, _))| Loss {
            whose: format!("CPU {cpu}, in many threads,"),
            share: ns as f64 / whole,
            has_waited,
            mostly: None,
        })
    };
    let (victim, sender) = (most(stolen, false), most(waited, true));
    victim.into_iter().chain(sender).max_by(|a, b| a.share.total_cmp(&b.share))
}

fn worst_thread(window: &Snapshot, is_one: &impl Fn(Class) -> bool) -> Option<Loss> {
    let whole = window.window_ns.max(1) as f64;
    let mut stolen: BTreeMap<u32, (u64, u64, &Task)> = BTreeMap::new();
    for victim in window.victims.iter().filter(|v| is_one(v.class) && v.task.tid != 0 && !v.task.is_others())
    {
        let sum = stolen.entry(victim.task.tid).or_insert((0, 0, &victim.task));
        sum.0 = sum.0.saturating_add(victim.stolen_ns);
        sum.1 = sum.1.saturating_add(victim.interruptions);
    }
    let mut waited: BTreeMap<u32, (u64, u64, &Task)> = BTreeMap::new();
    for sender in window.senders.iter().filter(|s| is_one(s.class) && s.task.tid != 0 && !s.task.is_others())
    {
        let sum = waited.entry(sender.task.tid).or_insert((0, 0, &sender.task));
        sum.0 = sum.0.saturating_add(sender.tally.wait_ns);
        sum.1 = sum.1.saturating_add(sender.tally.shootdowns);
    }
    let most = |sums: BTreeMap<u32, (u64, u64, &Task)>| {
        let sums = sums.into_values().filter(|(_, times, _)| *times >= INTERRUPTIONS_MIN);
        sums.max_by_key(|(ns, _, _)| *ns).map(|(ns, _, task)| (ns as f64 / whole, task.clone()))
    };
    let victim = most(stolen).map(|(share, task)| {
        let mostly = to_whom(window, task.tid, is_one);
        Loss { whose: format!("thread {}", stat::task(&task)), share, has_waited: false, mostly }
    });
    let sender = most(waited).map(|(share, task)| {
        let mostly = for_what(window, task.tid, is_one);
        Loss { whose: format!("thread {}", stat::task(&task)), share, has_waited: true, mostly }
    });
    victim.into_iter().chain(sender).max_by(|a, b| a.share.total_cmp(&b.share))
}

/// Who took most from this thread; where pairs were not watched, who sent most at all.
fn to_whom(window: &Snapshot, tid: u32, is_one: &impl Fn(Class) -> bool) -> Option<(String, f64)> {
    let mut tasks: HashMap<u32, String> = HashMap::new();
    let mut causes: BTreeMap<u32, Counts<String>> = BTreeMap::new();
    let mut all: Counts<u32> = Counts::default();
    for sender in window.senders.iter().filter(|s| is_one(s.class) && s.cause != Cause::Wakeup) {
        tasks.insert(sender.task.tid, stat::task(&sender.task));
        causes.entry(sender.task.tid).or_default().add(sender.cause.to_string(), sender.tally.targets);
        all.add(sender.task.tid, sender.tally.targets);
    }
    let pairs = window.pairs.iter().filter(|pair| is_one(pair.class) && pair.victim_tid == tid);
    let by_pairs: Counts<u32> = pairs.map(|pair| (pair.sender_tid, pair.stolen_ns)).collect();
    let sums = if by_pairs.total() > 0 { by_pairs } else { all };
    let (sender, most) = sums.most()?;
    let part = most as f64 / sums.total().max(1) as f64;
    let name = tasks.get(sender).cloned().unwrap_or_else(|| sender.to_string());
    let cause = causes.get(sender).and_then(|causes| Some(causes.most()?.0.clone()));
    Some((cause.map_or(name.clone(), |cause| format!("{name} ({cause})")), part))
}

fn for_what(window: &Snapshot, tid: u32, is_one: &impl Fn(Class) -> bool) -> Option<(String, f64)> {
    let mine = window.senders.iter().filter(|s| is_one(s.class) && s.task.tid == tid);
    let sums: Counts<String> = mine.map(|s| (s.cause.to_string(), s.tally.wait_ns)).collect();
    let (cause, most) = sums.most()?;
    Some((cause.clone(), most as f64 / sums.total().max(1) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{pair, sender, victim};
    use ceasefire_watch_model::{Bursts, Victim};

    /// In a second, thread 2 is interrupted by thread 1.
    fn window(interruptions: u64, stolen_ns: u64) -> Snapshot {
        let stolen = Victim { stolen_ns, ..victim(Class::User, 1, 2, interruptions) };
        let mut pair = pair(Class::User, 1, 2, interruptions);
        pair.stolen_ns = stolen_ns;
        Snapshot {
            window_ns: 1_000_000_000,
            has_latencies: true,
            senders: vec![sender(Class::User, 1, Cause::Munmap, interruptions)],
            victims: vec![stolen],
            pairs: vec![pair],
            ..Snapshot::default()
        }
    }

    #[test]
    fn the_first_line_accuses_or_acquits() {
        for (stolen_ns, finding, words) in [
            (31_000_000, Finding::Accused, "TLB shootdowns are a problem here: thread victim 2 lost 3.1 % of its time, nearly all to sender 1 (munmap)"),
            (5_000_000, Finding::Minor, "TLB shootdowns cost a little here"),
            (200_000, Finding::Acquitted, "look elsewhere: thread victim 2 lost 0.02 % of its time"),
        ] {
            let verdict = Verdict::of(&window(4000, stolen_ns));
            assert_eq!(verdict.flushes, finding, "{}", verdict.text());
            assert!(verdict.text().contains(words), "{}", verdict.text());
        }
        assert_eq!(Verdict::of(&Snapshot::default()).flushes, Finding::Unknown, "nobody's time was watched");
        assert_eq!(Verdict::of(&window(3, 31_000_000)).flushes, Finding::Acquitted, "three are chance");
    }

    #[test]
    fn who_waits_loses_too() {
        let mut window = window(4000, 200_000);
        window.senders[0].tally.wait_ns = 300_000_000;
        let verdict = Verdict::of(&window);
        assert!(verdict.text().contains("thread sender 1 waited 30.0 % of the time"), "{}", verdict.text());
        assert_eq!(verdict.flushes, Finding::Accused);
    }

    /// Each of them is soon over, and loses next to nothing of a second.
    #[test]
    fn threads_that_live_briefly_lose_together() {
        let mut window = window(30, 300_000);
        let brief = |tid: u32| Victim { stolen_ns: 300_000, ..victim(Class::User, 1, tid, 30) };
        window.victims = (2..102).map(brief).collect();
        let ended = ceasefire_watch_model::Task::others("brief");
        window.victims.push(Victim { task: ended, ..brief(200) });
        let verdict = Verdict::of(&window);
        assert_eq!(verdict.flushes, Finding::Accused);
        assert!(
            verdict.text().contains("CPU 1, in many threads, lost 3.0 % of its time"),
            "{}",
            verdict.text()
        );
        window.victims.iter_mut().for_each(|victim| victim.task.tid = 0);
        assert_eq!(Verdict::of(&window).flushes, Finding::Acquitted, "idle CPUs have time");
    }

    #[test]
    fn a_burst_accuses_where_the_whole_would_not() {
        let mut window = window(4000, 200_000);
        let worst = Moment { start_ns: 0, received: 900, stolen_ns: 600_000 };
        window.bursts = Bursts { second: Some(worst), hundredth: Some(worst) };
        let text = render(&window);
        assert!(text.starts_with("TLB shootdowns are a problem here in bursts: worst 10 ms: 900 "), "{text}");
        assert!(text.contains("Worst second: 900 interruptions took 600.0 us; worst 10 ms"), "{text}");
    }

    #[test]
    fn what_was_not_seen_is_not_acquitted() {
        let mut window = window(4000, 200_000);
        window.coverage.blind.push("this CPU can flush others by INVLPGB: not seen".into());
        assert_eq!(Verdict::of(&window).flushes, Finding::Unknown);
    }

    #[test]
    fn other_cross_calls_have_a_line_of_their_own() {
        let mut window = window(4000, 200_000);
        let mut caller = sender(Class::CrossCall, 7, Cause::Membarrier, 50_000);
        caller.tally.wait_ns = 700_000_000;
        window.senders.push(caller);
        let verdict = Verdict::of(&window);
        assert_eq!((verdict.flushes, verdict.calls), (Finding::Acquitted, Finding::Accused));
        let last = verdict.text().lines().last().unwrap_or_default();
        assert!(
            last.starts_with("other cross calls are a problem here: thread sender 7 waited 70.0 %"),
            "{last}"
        );
    }
}
