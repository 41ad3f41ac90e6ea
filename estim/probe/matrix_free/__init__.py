"""Models with too many parameters for their Jacobian to be held, or too many readings.

A library of models gives `passes` over the rows of a Jacobian, added up in `sums`; `way` chooses by their `cost`.
Gram matrices that fit have `spectra`, in the mathematics of `spectrum`, of which `large` makes the record; else `top`
finds the strongest directions, with what is known of the `rest`, and `top_record` their record. `streamed` is for few
parameters with too many readings. `error` tells how well a Jacobian is known, `slopes`, in short floats `coarse`,
whether it is the model's. Parameters come in `groups`, and `directions` are told what they are.

The `record` answers `questions` (`detectable`: of random changes), has `views` (`summary`, `plot`, `page`) and is
judged: `judge`, from `shifts` of the readings and the `margin` of a smallest change.
"""
