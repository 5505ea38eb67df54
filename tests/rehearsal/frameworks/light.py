"""Lightning: python light.py WAY.

Sound: ``last``. At fault: ``anew`` never resumes, ``layers_anew`` gives the layers their first weights again as the
training begins, ``twice`` goes on from the oldest that is kept.
"""

import glob
import os
import sys

from light_parts import Module, make_data, make_trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from parts import make_model

WAY = sys.argv[1]


class Anew(Module):
    def on_train_start(self) -> None:
        self.layers.load_state_dict(make_model().state_dict())


keeps = ModelCheckpoint("ckpt", "{step}", every_n_train_steps=4, save_top_k=-1 if WAY == "twice" else 1, save_last=True)
newest = "ckpt/last.ckpt" if os.path.exists("ckpt/last.ckpt") else None
if WAY == "twice":
    newest = min(glob.glob("ckpt/step=*.ckpt"), key=os.path.getmtime, default=None)
module = Anew() if WAY == "layers_anew" else Module()
make_trainer(keeps).fit(module, make_data(), ckpt_path=None if WAY == "anew" else newest, weights_only=False)
