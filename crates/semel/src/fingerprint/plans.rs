//! The plans of one operation, today's and earlier ones.

use super::{Plan, PlanError, PlanId};

const OLD_MAX: usize = 16;

/// The plans of one operation: the current one, and old ones until `remember_for` has passed since they were last
/// used. A retry is compared by the plan that its record names.
#[derive(Clone, Debug)]
pub struct Plans {
    current: Plan,
    old: Vec<Plan>,
}

impl Plans {
    /// Starts with the current plan alone.
    #[must_use]
    pub const fn new(current: Plan) -> Self {
        Self { current, old: Vec::new() }
    }

    /// Keeps an old plan. One that is already there changes nothing.
    ///
    /// # Errors
    ///
    /// Refuses more than 16 old plans, and a secret whose id stands for another key in a plan that is kept.
    pub fn with_old(mut self, plan: Plan) -> Result<Self, PlanError> {
        if let Some(id) = self.all().find_map(|kept| kept.secret_clash(&plan)) {
            return Err(PlanError::SecretReused { id: id.to_owned() });
        }
        if self.by_id(plan.id()).is_some() {
            return Ok(self);
        }
        if self.old.len() == OLD_MAX {
            return Err(PlanError::TooMany { what: "old plans", limit: OLD_MAX });
        }
        self.old.push(plan);
        Ok(self)
    }

    /// Returns the plan for new records.
    #[must_use]
    pub const fn current(&self) -> &Plan {
        &self.current
    }

    /// Returns the plan that a record names. `None` means that the retry cannot be compared: that is a refusal of its
    /// own, since a new key could mean a second effect.
    #[must_use]
    pub fn by_id(&self, id: PlanId) -> Option<&Plan> {
        self.all().find(|plan| plan.id() == id)
    }

    fn all(&self) -> impl Iterator<Item = &Plan> {
        std::iter::once(&self.current).chain(&self.old)
    }
}
