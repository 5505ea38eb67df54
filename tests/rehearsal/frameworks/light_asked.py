"""Lightning by autopilot.training: sound."""

from light_parts import Module, make_data, make_trainer

from autopilot import training

training.fit(make_trainer(), Module(), make_data(), weights_only=False)
