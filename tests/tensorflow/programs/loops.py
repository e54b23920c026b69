# SPDX-License-Identifier: Apache-2.0
"""Programs that are more than one model and one `fit`. Each gives its losses and its weights."""

import tempfile

import data
import keras
import models
import numpy as np
import tensorflow as tf
from keras import layers


def cross_entropy():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def custom_loop():
    """Plain tf.function and GradientTape, with a branch and a while loop in the step."""
    generator = tf.random.Generator.from_seed(3)
    weights = [tf.Variable(generator.normal((128, 128)) * 0.1) for _ in range(8)]
    x = generator.normal((4096, 128))

    @tf.function
    def step(x, turn):
        with tf.GradientTape() as tape:
            hidden = x
            for weight in weights:
                hidden = tf.tanh(hidden @ weight)
            if turn % 2 == 0:
                hidden = tf.exp(tf.sin(tf.tanh(hidden * 1.5) * hidden) + hidden)
            i = tf.constant(0)
            total = hidden
            while i < 3:
                total = tf.tanh(total + hidden @ weights[0])
                i += 1
            loss = tf.reduce_mean(tf.square(total))
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    losses = [float(step(x, tf.constant(turn))) for turn in range(6)]
    return losses, [weight.numpy() for weight in weights]


def gan():
    """Two networks and two optimizers, in one step."""
    noise_size, batch = 16, 96
    draw = keras.Sequential(
        [
            keras.Input((noise_size,)),
            layers.Dense(7 * 7 * 16),
            layers.Reshape((7, 7, 16)),
            layers.Conv2DTranspose(16, 4, 2, "same", activation="relu"),
            layers.BatchNormalization(),
            layers.Conv2DTranspose(16, 4, 2, "same", activation="relu"),
            layers.Conv2D(1, 3, padding="same", activation="tanh"),
        ]
    )
    judge = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(16, 4, 2, "same"),
            layers.LeakyReLU(0.2),
            layers.Conv2D(32, 4, 2, "same"),
            layers.LeakyReLU(0.2),
            layers.Dropout(0.3),
            layers.Flatten(),
            layers.Dense(1),
        ]
    )
    optimizers = [keras.optimizers.Adam(2e-4, beta_1=0.5) for _ in range(2)]
    entropy = keras.losses.BinaryCrossentropy(from_logits=True)

    @tf.function
    def step(images, noise):
        with tf.GradientTape() as of_drawing, tf.GradientTape() as of_judging:
            drawn = draw(noise, training=True)
            real, false = judge(images, training=True), judge(drawn, training=True)
            drawing = entropy(tf.ones_like(false), false)
            judging = entropy(tf.ones_like(real), real) + entropy(tf.zeros_like(false), false)
        for tape, loss, network, optimizer in (
            (of_drawing, drawing, draw, optimizers[0]),
            (of_judging, judging, judge, optimizers[1]),
        ):
            gradients = tape.gradient(loss, network.trainable_variables)
            optimizer.apply(gradients, network.trainable_variables)
        return drawing, judging

    images, _ = data.classified(batch * 3, 28, 28, 1)
    noise = data.classified(batch * 3, noise_size)[0]
    losses = []
    for begin in [*range(0, len(images), batch)] * 2:
        part = slice(begin, begin + batch)
        losses += [float(loss) for loss in step(np.tanh(images[part]), noise[part])]
    return losses, draw.get_weights() + judge.get_weights()


def graph_network():
    """Messages along the edges of a graph: gathers, and sums over each node's edges."""
    nodes, edges, width = 3000, 12000, 48
    generator = np.random.default_rng(data.SEED)
    ends = tf.constant(generator.integers(0, nodes, (2, edges)), tf.int32)
    x, y = data.classified(nodes, width)
    message = [layers.Dense(width, "relu") for _ in range(5)]
    update = [layers.Dense(width, "tanh") for _ in range(5)]
    answer = layers.Dense(data.CLASSES)
    optimizer = keras.optimizers.AdamW(1e-2)
    every_layer = [*message, *update, answer]
    for layer, size in zip(every_layer, [2 * width] * 10 + [width], strict=True):
        layer.build((None, size))
    weights = [weight for layer in every_layer for weight in layer.trainable_variables]

    @tf.function
    def step(hidden):
        with tf.GradientTape() as tape:
            for send, take in zip(message, update, strict=True):
                between = tf.concat([tf.gather(hidden, ends[0]), tf.gather(hidden, ends[1])], 1)
                received = tf.math.unsorted_segment_sum(send(between), ends[1], nodes)
                hidden = take(tf.concat([hidden, received / 4], 1))
            loss = cross_entropy()(y, answer(hidden))
        optimizer.apply(tape.gradient(loss, weights), weights)
        return loss

    losses = [float(step(tf.constant(x))) for _ in range(6)]
    return losses, [weight.numpy() for weight in weights]


class TwoLosses(keras.Model):
    """A model with a step of its own: two answers, of which one is of no use later."""

    def __init__(self):
        super().__init__()
        self.body = keras.Sequential([layers.Dense(192, "relu") for _ in range(8)])
        self.answers = [layers.Dense(data.CLASSES), layers.Dense(8)]

    def call(self, x):
        hidden = self.body(x)
        return [answer(hidden) for answer in self.answers]

    def train_step(self, batch):
        x, y = batch
        with tf.GradientTape() as tape:
            classes, again = self(x, training=True)
            loss = cross_entropy()(y, classes) + tf.reduce_mean(tf.square(again - x[:, :8]))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"both": loss}


def custom_train_step():
    x, y = data.classified(1400, 64)
    model = TwoLosses()
    model.compile("rmsprop")
    history = model.fit(x, y, 512, 3, shuffle=False, verbose=0)
    return history.history["both"], model.get_weights()


def until_no_data():
    """An iterator of unknown length: the last step of each epoch finds no more data. By then
    TensorFlow has drawn for the dropout, counted the step and let the weights decay, as none of
    these waits for data."""
    x, y = data.classified(128, 24, 24, 3)
    kinds = (tf.TensorSpec((24, 24, 3), tf.float32), tf.TensorSpec((), tf.int64))
    rows = tf.data.Dataset.from_generator(lambda: zip(x, y, strict=True), output_signature=kinds)
    model = models.cnn(8)
    model.compile(keras.optimizers.AdamW(1e-2, weight_decay=0.1), cross_entropy())
    losses = model.fit(rows.batch(32), epochs=3, shuffle=False, verbose=0).history["loss"]
    return losses, model.get_weights()


def mixed_batches():
    """Batches of many sizes, from train_on_batch: some of them trace the step anew."""
    model = models.cnn(8)
    model.compile("adam", cross_entropy())
    x, y = data.classified(256, 24, 24, 3)
    losses = []
    for size in (64, 64, 17, 256, 1, 64, 128, 128, 17, 200):
        losses.append(model.train_on_batch(x[:size], y[:size]))
    return losses, model.get_weights()


def recomputed():
    """tf.recompute_grad around parts of the step: TensorFlow runs them twice."""
    generator = tf.random.Generator.from_seed(3)
    weights = [
        [tf.Variable(generator.normal((192, 192)) * 0.08) for _ in range(4)] for _ in range(4)
    ]
    every_weight = [weight for part in weights for weight in part]
    x = generator.normal((1024, 192))

    def part(hidden, *own):
        for weight in own:
            hidden = tf.tanh(hidden @ weight)
        return hidden

    @tf.function
    def step(hidden):
        with tf.GradientTape() as tape:
            for own in weights:
                values = [tf.convert_to_tensor(weight) for weight in own]
                hidden = tf.recompute_grad(part)(hidden, *values)
            loss = tf.reduce_mean(tf.square(hidden))
        gradients = tape.gradient(loss, every_weight)
        for weight, gradient in zip(every_weight, gradients, strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    losses = [float(step(x)) for _ in range(6)]
    return losses, [weight.numpy() for weight in every_weight]


def saved_and_resumed():
    """Trains, saves model and optimizer, reads them back, and trains on."""
    x, y = data.classified(600, 8, 8, 3)
    model = models.mlp()
    model.compile("adamw", cross_entropy())
    first = model.fit(x, y, 256, 2, shuffle=False, verbose=0).history["loss"]
    with tempfile.TemporaryDirectory() as folder:
        whole, checkpoint = f"{folder}/model.keras", tf.train.Checkpoint(model=model)
        model.save(whole)
        kept = checkpoint.save(f"{folder}/weights")
        again = keras.models.load_model(whole)
        then = again.fit(x, y, 256, 2, shuffle=False, verbose=0).history["loss"]
        # The model that was saved goes back to where it was, and trains the same way.
        model.fit(x, y, 256, 1, shuffle=True, verbose=0)
        checkpoint.restore(kept).assert_existing_objects_matched()
        back = model.evaluate(x, y, 256, verbose=0)
    return [*first, *then, back], again.get_weights() + model.get_weights()


def session():
    """TensorFlow as it was before 2: placeholders, a session, an optimizer that makes ops."""
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        v1.set_random_seed(5)
        x, y = data.classified(1500, 64)
        given = v1.placeholder(tf.float32, (None, 64))
        classes = v1.placeholder(tf.int64, (None,))
        hidden, weights = given, []
        for number, (rows, columns) in enumerate([(64, 256)] + [(256, 256)] * 6 + [(256, 10)]):
            weight = v1.get_variable(
                f"w{number}",
                (rows, columns),
                initializer=v1.glorot_uniform_initializer(seed=number),
            )
            weights.append(weight)
            hidden = hidden @ weight
            hidden = tf.nn.relu(hidden) if columns > 10 else hidden
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=hidden)
        )
        train = v1.train.MomentumOptimizer(0.05, 0.9).minimize(loss)
        losses = []
        with v1.Session() as running:
            running.run(v1.global_variables_initializer())
            for begin in [*range(0, 1500, 512)] * 2:
                part = slice(begin, begin + 512)
                told = running.run([loss, train], {given: x[part], classes: y[part]})
                losses.append(float(told[0]))
            return losses, running.run(weights)


def mirrored():
    """Two replicas on two logical processors, which add their gradients."""
    first = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(first, [tf.config.LogicalDeviceConfiguration()] * 2)
    with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        model = models.cnn(8)
        model.compile("sgd", cross_entropy())
    x, y = data.classified(192, 24, 24, 3)
    history = model.fit(x, y, batch_size=64, epochs=2, shuffle=False, verbose=0)
    return history.history["loss"], model.get_weights()


def keras_2():
    """The Keras that TensorFlow had before 2.16, from a package of its own."""
    import tf_keras

    tf_keras.utils.set_random_seed(0)
    model = tf_keras.Sequential([tf_keras.Input((24, 24, 3))])
    for _ in range(8):
        model.add(tf_keras.layers.Conv2D(8, 3, padding="same"))
        model.add(tf_keras.layers.BatchNormalization())
        model.add(tf_keras.layers.ReLU())
    model.add(tf_keras.layers.GlobalAveragePooling2D())
    model.add(tf_keras.layers.Dense(data.CLASSES))
    model.compile("adam", tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = data.classified(200, 24, 24, 3)
    history = model.fit(x, y, batch_size=64, epochs=3, shuffle=False, verbose=0)
    return history.history["loss"], model.get_weights()


def eager():
    """A tape outside of every function: what waits for the backward pass is Python's."""
    generator = tf.random.Generator.from_seed(3)
    weights = [tf.Variable(generator.normal((128, 128)) * 0.1) for _ in range(6)]
    x = generator.normal((1024, 128))
    layer = tf.function(lambda hidden, weight: tf.tanh(hidden @ weight))
    losses = []
    for _ in range(4):
        with tf.GradientTape() as tape:
            hidden = x
            for weight in weights:
                hidden = layer(hidden, weight)
            loss = tf.reduce_mean(tf.square(hidden))
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        losses.append(float(loss))
    return losses, [weight.numpy() for weight in weights]
