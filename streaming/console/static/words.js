// The words of scripts, in the language of the page: base.html has them all.

const words = JSON.parse(document.body.dataset.words);

// A text with its values: say("late", { batch: 3, age: "5 min" }).
export function say(name, values = {}) {
  return words[name].replace(/\{(\w+)\}/g, (_all, value) => values[value]);
}
