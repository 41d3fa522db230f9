// SPDX-License-Identifier: GPL-2.0-only
//! One line each: `ceasefire.watch/1`.

use crate::verdict::Verdict;
use ceasefire_watch_model::{Shootdown, Snapshot, Stacks, SCHEMA};
use serde_json::{json, Value};

/// A report of a window; the same whatever the verb, which is named.
pub fn window(verb: &str, window: &Snapshot) -> Value {
    let mut value = serde_json::to_value(window).unwrap_or(Value::Null);
    value["schema"] = json!(SCHEMA);
    value["verb"] = json!(verb);
    value["verdict"] = Verdict::of(window).json();
    value
}

/// One shootdown, its stacks by name.
pub fn event(shootdown: &Shootdown, stacks: &Stacks) -> String {
    let mut value = serde_json::to_value(shootdown).unwrap_or(Value::Null);
    value["schema"] = json!(SCHEMA);
    value["verb"] = json!("trace");
    value["kernel_frames"] = json!(shootdown.kernel_stack.and_then(|id| stacks.kernel.get(&id)));
    value["user_frames"] = json!(shootdown.user_stack.and_then(|id| stacks.user.get(&id)));
    value.to_string()
}
