"""Hugging Face's Trainer by autopilot.training: sound."""

from hf_parts import make_trainer

from autopilot import training

training.train(make_trainer(save_steps=10, save_total_limit=2))
