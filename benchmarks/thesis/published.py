"""Figures of Jang's thesis (Drexel 2023, chapter 7; SMAUG's cycles, tensors capped at the scratchpad)."""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """Table 7.1, as shares: DMA's of all cycles; speed-ups without DMA, with infinite scratchpads, on average.

    Over all sizes, speed-ups range from 19 to 60 %. At 32 KB, ResNet has 39.5 % of the speed-up of infinite
    scratchpads; the four smallest networks have all of it from 128 KB on.
    """

    boundness: float
    theoretical: float
    infinite: float
    average: float


TABLE_7_1 = {
    "smaug_cnn": Published(0.3983, 0.6620, 0.4516, 0.4181),
    "lenet5": Published(0.4079, 0.6889, 0.4730, 0.4291),
    "lstm": Published(0.4227, 0.7321, 0.4776, 0.4293),
    "minerva": Published(0.4765, 0.9104, 0.6046, 0.4310),
    "elu_cifar100": Published(0.4381, 0.7796, 0.5266, 0.4208),
    "large_elu": Published(0.4521, 0.8251, 0.5581, 0.4255),
    "resnet50_smaug": Published(0.4150, 0.7095, 0.4801, 0.4310),
    "vgg_cifar": Published(0.4412, 0.7895, 0.5365, 0.4371),
}
