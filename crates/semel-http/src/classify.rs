//! What an answer says about its effect: one total table.

/// What a handler says about its effect, where the status alone would say something else. It puts it
/// into the extensions of its response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effect {
    /// The answer is final, whatever its status: it is kept and replayed.
    Final,
    /// Certainly nothing happened: the intent may be tried again.
    None,
    /// Nobody can say.
    Unknown,
}
