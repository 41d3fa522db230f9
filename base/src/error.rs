// SPDX-License-Identifier: GPL-2.0-only
//! What a person sees when something cannot be done: one sentence, the remedy, an exit code.

/// Why a command ends early; decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The work was tried and failed, or a claim did not hold.
    Failed,
    /// The request itself cannot be right: unknown flag, workload, kernel, number out of range.
    Usage,
    /// Something outside us is missing (tool, permission, feature); not a verdict on the work.
    Skip,
    /// Ctrl-C or SIGTERM.
    Interrupted,
}

impl Kind {
    /// 1 failed, 2 usage, 4 skip, 130 interrupted.
    pub fn exit_code(self) -> u8 {
        match self {
            Kind::Failed => 1,
            Kind::Usage => 2,
            Kind::Skip => 4,
            Kind::Interrupted => 130,
        }
    }
}

/// One sentence for the user, the remedy where there is one, and the kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub kind: Kind,
    pub message: String,
    pub remedy: Option<String>,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), remedy: None }
    }

    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Kind::Failed, message)
    }

    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    pub fn skip(message: impl Into<String>) -> Self {
        Self::new(Kind::Skip, message)
    }

    pub fn interrupted() -> Self {
        Self::new(Kind::Interrupted, "interrupted; nothing half-written was kept")
    }

    /// What the user can do about it, as an imperative or a command.
    pub fn remedy(mut self, text: impl Into<String>) -> Self {
        self.remedy = Some(text.into());
        self
    }
}
