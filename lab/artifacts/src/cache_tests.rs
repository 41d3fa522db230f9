// SPDX-License-Identifier: GPL-2.0-only
//! Does the cache build once, notice damage, leave nothing half-done and remove only what it may?

use super::*;
use ceasefire_base::{Kind, Verbosity};
use std::sync::atomic::AtomicUsize;

/// A cache in a directory of its own, removed at the end.
struct Place {
    _scratch: tempfile::TempDir,
    dir: PathBuf,
    progress: Progress,
}

impl Place {
    fn new() -> Place {
        let scratch = tempfile::tempdir().expect("a directory");
        let dir = scratch.path().join("cache");
        Place { _scratch: scratch, dir, progress: Progress::new(Verbosity::Quiet) }
    }

    /// As another process would open it: without the locks this one holds.
    fn open(&self) -> Cache {
        Cache::at(&self.dir).expect("opens")
    }

    fn obtain(&self, cache: &Cache, text: &str) -> Entry {
        cache.obtain(&self.progress, "test", "thing", &key(text), |dir| fill(dir, text)).expect("built")
    }

    fn in_tmp(&self) -> usize {
        subdirs(&self.dir.join("tmp")).expect("listed").len()
    }
}

fn key(text: &str) -> Key {
    Key::new("test").text("content", text)
}

fn fill(dir: &Path, text: &str) -> Result<Facts> {
    fs::create_dir_all(dir.join("below")).expect("made");
    fs::write(dir.join("below/file"), text).expect("written");
    Ok(Facts::from([("length".to_string(), text.len().to_string())]))
}

#[test]
fn builders_at_the_same_time_build_once() {
    let place = Place::new();
    let builds = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let cache = place.open();
                let build = |dir: &Path| {
                    builds.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(50));
                    fill(dir, "a")
                };
                let entry = cache.obtain(&place.progress, "test", "thing", &key("a"), build).expect("there");
                assert_eq!(fs::read_to_string(entry.dir.join("below/file")).expect("read"), "a");
                assert_eq!(entry.fact("length"), "1");
            });
        }
    });
    assert_eq!(builds.load(Ordering::SeqCst), 1);
    assert_eq!(place.in_tmp(), 0);
}

#[test]
fn damage_is_noticed_and_built_again() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 6] = [
        ("missing", |dir| fs::remove_file(dir.join("below/file")).expect("removed")),
        ("shorter", |dir| fs::write(dir.join("below/file"), "conten").expect("written")),
        ("altered", |dir| fs::write(dir.join("below/file"), "cOntent").expect("written")),
        ("no manifest", |dir| fs::remove_file(dir.join(MANIFEST)).expect("removed")),
        ("bad manifest", |dir| fs::write(dir.join(MANIFEST), "{\"schema\":").expect("written")),
        ("foreign manifest", |dir| {
            let text = fs::read_to_string(dir.join(MANIFEST)).expect("read");
            fs::write(dir.join(MANIFEST), text.replace(&key("content").hex(), "0123456789abcdef"))
                .expect("written");
        }),
    ];
    for (name, damage) in damages {
        let place = Place::new();
        let entry = place.obtain(&place.open(), "content");
        assert!(entry.built);
        assert!(!place.obtain(&place.open(), "content").built, "{name}: whole entries are used");
        damage(&entry.dir);
        assert!(place.open().find("test", "thing", &key("content")).is_none(), "{name}");
        let again = place.obtain(&place.open(), "content");
        assert!(again.built, "{name}: not noticed");
        assert_eq!(fs::read_to_string(again.dir.join("below/file")).expect("read"), "content");
        assert!(!place.obtain(&place.open(), "content").built, "{name}: whole again");
    }
}

#[test]
fn a_failed_build_leaves_nothing_and_the_next_one_works() {
    let place = Place::new();
    let cache = place.open();
    let fail = |dir: &Path| {
        fill(dir, "half").expect("filled");
        Err(Error::interrupted())
    };
    let error = cache.obtain(&place.progress, "test", "thing", &key("a"), fail).expect_err("fails");
    assert_eq!(error.kind, Kind::Interrupted);
    assert_eq!(place.in_tmp(), 0);
    assert!(cache.find("test", "thing", &key("a")).is_none());
    assert!(place.obtain(&cache, "a").built);
}

#[test]
fn what_a_killed_build_left_is_swept_unless_its_builder_lives() {
    let place = Place::new();
    let cache = place.open();
    let id = Id::new("test", "thing", &key("a"));
    let left = place.dir.join("tmp").join(format!("{}.1.0", id.flat()));
    fs::create_dir_all(left.join("below")).expect("made");
    let foreign = place.dir.join("tmp/not ours");
    fs::create_dir_all(&foreign).expect("made");
    let lock = Lock::try_exclusive(&cache.lock_path(&id), "test").expect("locks").expect("free");
    place.open();
    assert!(left.exists(), "its builder lives");
    drop(lock);
    place.open();
    assert!(!left.exists() && foreign.exists());
}

#[test]
fn clean_keeps_what_is_young_or_in_use() {
    let place = Place::new();
    let user = place.open();
    let in_use = place.obtain(&user, "in use");
    let idle = place.obtain(&place.open(), "idle");
    let log = place.dir.join("logs/a.log");
    fs::write(&log, "log").expect("written");
    let other = place.open();

    let hour = Some(Duration::from_secs(3600));
    assert!(other.clean(hour, false).expect("cleans").removed.is_empty());
    let trial = other.clean(None, true).expect("cleans");
    assert_eq!((trial.removed.len(), trial.kept_locked), (2, 1));
    assert!(idle.dir.exists() && log.exists(), "a dry run removes nothing");

    for file in [idle.dir.join(USED), idle.dir.join(MANIFEST), idle.dir.join("below/file")] {
        let old = SystemTime::now() - Duration::from_secs(7200);
        fs::File::options().write(true).open(file).expect("opens").set_modified(old).expect("set");
    }
    let cleaned = other.clean(hour, false).expect("cleans");
    assert_eq!((cleaned.removed.len(), cleaned.kept_locked), (1, 0));
    assert!(!idle.dir.exists() && in_use.dir.exists());
    assert_eq!(other.clean(None, false).expect("cleans").kept_locked, 1);
    assert!(in_use.dir.exists() && !log.exists());
    drop(user);
    other.clean(None, false).expect("cleans");
    assert!(!in_use.dir.exists());
    assert_eq!(place.in_tmp(), 0);
}

#[test]
fn clean_touches_nothing_that_is_not_an_entry() {
    let place = Place::new();
    let cache = place.open();
    let foreign = place.dir.join("pictures/holiday");
    fs::create_dir_all(&foreign).expect("made");
    fs::write(foreign.join("photo"), "precious").expect("written");
    fs::write(foreign.join(MANIFEST), "{}").expect("written");
    cache.clean(None, false).expect("cleans");
    assert!(foreign.join("photo").exists());
}

#[test]
fn keys_differ_when_any_input_differs() {
    let base = Key::new("k").text("a", "b");
    let others = [
        Key::new("k").text("a", "c"),
        Key::new("k").text("b", "b"),
        Key::new("l").text("a", "b"),
        Key::new("k").text("a", "b").text("c", ""),
        Key::new("k").text("a=1:b\n1", ""),
    ];
    for other in others {
        assert_ne!(base.hex(), other.hex(), "{other:?}");
    }
    assert_eq!(base.hex(), Key::new("k").text("a", "b").hex());
    assert_eq!(base.hex().len(), KEY_HEX);
}

#[test]
fn a_cache_that_cannot_be_made_says_what_helps() {
    let error = Cache::at(Path::new("/dev/null/cache")).expect_err("not a directory");
    assert!(error.remedy.is_some_and(|remedy| remedy.contains("CEASEFIRE_CACHE")));
}

#[test]
fn temporary_names_give_their_owner() {
    for (name, expected) in [
        ("kernel-vanilla-0123.42.0", Some("kernel-vanilla-0123")),
        ("source-linux-6.12-0123.42.17", Some("source-linux-6.12-0123")),
        ("notes", None),
        ("a.b.c", None),
        ("a.1.", None),
        ("a.1.x", None),
    ] {
        assert_eq!(owner(name), expected, "{name}");
    }
}
