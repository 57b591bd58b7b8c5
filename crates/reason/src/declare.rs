//! What is known of a reason, and the macro that makes the enum from the table.

/// Whose fault something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Side {
    /// Nobody's: it went as it should.
    #[default]
    Nobody,
    /// The client's.
    Client,
    /// The upstream server's.
    Upstream,
    /// Ours, or that of our configuration or machine.
    Proxy,
    /// A key server's.
    KeyServer,
    /// That of whoever sent the message: the client of a request, the upstream server of a response. In a table only: of a case it is known.
    Sender,
}

impl Side {
    /// The word for it in logs and metrics; empty if nobody is at fault.
    pub const fn word(self) -> &'static str {
        match self {
            Side::Nobody => "",
            Side::Client => "client",
            Side::Upstream => "upstream",
            Side::Proxy => "proxy",
            Side::KeyServer => "key_server",
            Side::Sender => "sender",
        }
    }

    /// Whose it is where the message is a request, or nothing is known of the message.
    pub const fn of_request(self) -> Side {
        if matches!(self, Side::Sender) { Side::Client } else { self }
    }
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The code, in lower-case words joined by `_`; stable.
    pub code: &'static str,
    /// Whose fault it is.
    pub side: Side,
    /// Status of the response that is given then; 0 where none can be.
    pub status: u16,
    /// What it belongs to, a heading of the documentation.
    pub group: &'static str,
    /// What happened, one sentence.
    pub meaning: &'static str,
    /// What an operator does about it, one or two sentences.
    pub remedy: &'static str,
}

/// Makes [`Reason`](crate::Reason) from rows of `Variant "code" Side status "meaning" "remedy";` under their groups.
macro_rules! reasons {
    ($($group:literal { $($variant:ident $code:literal $side:ident $status:literal $meaning:literal $remedy:literal;)* })*) => {
        /// Why something ended as it did.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[doc = $meaning] $variant,)*)*
            /// The message breaks its API document: a code of the crate `contract`, made by [`Reason::of_code`].
            Violation(&'static str),
        }

        impl Reason {
            /// Every reason of the table, in its order.
            pub const ALL: &[Reason] = &[$($(Reason::$variant,)*)*];

            /// The code in logs, metrics and problem documents.
            pub const fn code(self) -> &'static str {
                match self {
                    $($(Reason::$variant => $code,)*)*
                    Reason::Violation(code) => code,
                }
            }

            /// Whose fault it is; [`Side::Sender`] where that depends on the message.
            pub const fn side(self) -> Side {
                match self {
                    $($(Reason::$variant => Side::$side,)*)*
                    Reason::Violation(_) => Side::Sender,
                }
            }

            /// Status of the response that is given then; 0 where none can be.
            pub const fn status(self) -> u16 {
                match self {
                    $($(Reason::$variant => $status,)*)*
                    Reason::Violation(_) => 400,
                }
            }

            /// All that the table says.
            pub const fn facts(self) -> Facts {
                let (group, meaning, remedy) = match self {
                    $($(Reason::$variant => ($group, $meaning, $remedy),)*)*
                    Reason::Violation(_) => (
                        "API contracts",
                        "The message breaks the API document of its contract.",
                        "The field `contract` of the log line says where; correct the sender or the document.",
                    ),
                };
                Facts { code: self.code(), side: self.side(), status: self.status(), group, meaning, remedy }
            }

            /// The reason with this code; a violation of a contract if the table does not have it.
            pub fn of_code(code: &'static str) -> Reason {
                match code {
                    $($($code => Reason::$variant,)*)*
                    code => Reason::Violation(code),
                }
            }
        }
    };
}

pub(crate) use reasons;
