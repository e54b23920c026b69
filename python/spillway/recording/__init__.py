# SPDX-License-Identifier: Apache-2.0
"""Recording a training step without memory: on the meta device, where tensors have no bytes.

docs/recording.md says what such a recording knows and what it cannot know. Importing this package
imports torch.
"""

from spillway.recording.step import RecordedStep, record_step, without_memory

__all__ = ["RecordedStep", "record_step", "without_memory"]
