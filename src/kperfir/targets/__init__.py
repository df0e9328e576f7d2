"""How each vendor's GPU spells a record. Nothing else in kperfir knows instructions."""
