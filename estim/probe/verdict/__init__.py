"""Changed, equivalent or blind: the decision, its power, and what to do."""
