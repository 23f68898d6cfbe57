BEGIN TRANSACTION;
CREATE TABLE attempt (
	id INTEGER NOT NULL, 
	problem_id INTEGER NOT NULL, 
	generation INTEGER NOT NULL, 
	island INTEGER NOT NULL, 
	slot_index INTEGER NOT NULL, 
	operator VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	reason VARCHAR NOT NULL, 
	candidate_id INTEGER, 
	result_id INTEGER, 
	duplicate_of_id INTEGER, 
	configurations_json VARCHAR NOT NULL, 
	note VARCHAR NOT NULL, 
	cost_s FLOAT NOT NULL, 
	cost_usd FLOAT NOT NULL, 
	add_status INTEGER, 
	add_value FLOAT, 
	cell VARCHAR, 
	objective FLOAT, model VARCHAR DEFAULT '' NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (problem_id, generation, island, slot_index), 
	FOREIGN KEY(problem_id) REFERENCES problem (id), 
	FOREIGN KEY(candidate_id) REFERENCES candidate (id), 
	FOREIGN KEY(result_id) REFERENCES candidate (id), 
	FOREIGN KEY(duplicate_of_id) REFERENCES attempt (id)
);
INSERT INTO "attempt" VALUES(1,1,0,0,0,'tune','archived','',1,1,NULL,'','B 1 -> 2',0.0,0.0,2,6.93147180559945286226e-01,'0,1',6.93147180559945286226e-01,'');
INSERT INTO "attempt" VALUES(2,1,0,0,1,'tune','failed','wrong_value',2,NULL,NULL,'','B 1 -> 2',0.0,0.0,NULL,NULL,NULL,NULL,'');
INSERT INTO "attempt" VALUES(3,1,1,0,0,'tune','proposed','',3,NULL,NULL,'[{"B":4}]','it''s B',0.0,0.0,NULL,NULL,NULL,NULL,'');
CREATE TABLE candidate (
	id INTEGER NOT NULL, 
	problem_id INTEGER NOT NULL, 
	digest VARCHAR NOT NULL, 
	program VARCHAR NOT NULL, 
	language VARCHAR NOT NULL, 
	source VARCHAR NOT NULL, 
	attempt_id INTEGER, 
	withdrawn VARCHAR NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(problem_id) REFERENCES problem (id), 
	UNIQUE (digest)
);
INSERT INTO "candidate" VALUES(1,1,'ee2661784fd1ef00d45a1c144aed7f74bdfbf776d60bba70691a5ee43c2d234c','8c678cbe0939838951dfec20685116422c52d9ae0fe817fd855a845c26b8ca25','torch','TUNE_PARAMS = {''B'': [1, 2, 4]}
CONFIG = {''B'': 1}
NUMBER = 1
',1,'');
INSERT INTO "candidate" VALUES(2,1,'1a1a21ed6d140c99ada2bb38dc1f00b6fafc26afd42c8e61fb584cbd4461673b','fd0f4ebadc1dd6f0eb5b73169e12d50512c7af3a2b5d772058fdec9e939b78bb','torch','TUNE_PARAMS = {''B'': [1, 2, 4]}
CONFIG = {''B'': 1}
NUMBER = 2
',2,'');
INSERT INTO "candidate" VALUES(3,1,'ebc98ce3756ab3e62ced4874d821dc9f1525f567a119140500297829c5012de9','8c678cbe0939838951dfec20685116422c52d9ae0fe817fd855a845c26b8ca25','torch','TUNE_PARAMS = {''B'': [1, 2, 4]}
CONFIG = {''B'': 4}
NUMBER = 1
',3,'');
CREATE TABLE elite (
	problem_id INTEGER NOT NULL, 
	island INTEGER NOT NULL, 
	cell VARCHAR NOT NULL, 
	attempt_id INTEGER, 
	objective FLOAT, 
	PRIMARY KEY (problem_id, island, cell), 
	FOREIGN KEY(problem_id) REFERENCES problem (id), 
	FOREIGN KEY(attempt_id) REFERENCES attempt (id)
);
INSERT INTO "elite" VALUES(1,0,'0,1',1,6.93147180559945286226e-01);
CREATE TABLE evaluation (
	id INTEGER NOT NULL, 
	problem_id INTEGER NOT NULL, 
	candidate_id INTEGER NOT NULL, 
	attempt_id INTEGER, 
	purpose VARCHAR NOT NULL, 
	status VARCHAR NOT NULL, 
	reason VARCHAR NOT NULL, 
	speedup FLOAT, 
	data_json VARCHAR NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(problem_id) REFERENCES problem (id), 
	FOREIGN KEY(candidate_id) REFERENCES candidate (id), 
	UNIQUE (attempt_id), 
	FOREIGN KEY(attempt_id) REFERENCES attempt (id)
);
INSERT INTO "evaluation" VALUES(1,1,1,1,'search','OK','',2.0,'{"status":"OK","rung":4,"latency_ms":0.5,"reference_ms":1.0,"speedup":2.0,"interval":{"low":1.98,"high":2.02},"device":{"kind":"cpu","name":"X","uuid":"u","threads":1,"versions":{"torch":"2.13"}}}');
INSERT INTO "evaluation" VALUES(2,1,2,2,'search','WRONG_VALUE','wrong_value',NULL,'{"status":"WRONG_VALUE","reason":"wrong_value","log":"off by one"}');
CREATE TABLE llm_call (
	id INTEGER NOT NULL, 
	problem_id INTEGER NOT NULL, 
	generation INTEGER NOT NULL, 
	island INTEGER NOT NULL, 
	slot_index INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	operator VARCHAR NOT NULL, 
	model VARCHAR NOT NULL, 
	prompt_hash VARCHAR NOT NULL, 
	parameters_json VARCHAR NOT NULL, 
	outcome VARCHAR NOT NULL, 
	finish VARCHAR NOT NULL, 
	log VARCHAR NOT NULL, 
	prompt_tokens INTEGER, 
	completion_tokens INTEGER, 
	cost_usd FLOAT, 
	latency_s FLOAT NOT NULL, 
	tries INTEGER NOT NULL, 
	texts BLOB NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (problem_id, generation, island, slot_index, number), 
	FOREIGN KEY(problem_id) REFERENCES problem (id)
);
INSERT INTO "llm_call" VALUES(1,1,1,0,1,0,'llm.mutate','openai/large','5236db63db0e785a966fc9b91a23aa92b3e310a273c16859e30295b160337aa0','{"temperature":0.7,"max_tokens":512}','ok','stop','',20,10,0.25,1.5,1,X'7801AB562ACACF492D56B25288562AAE2C2E49CD55D251502A2D4E2D528A05327252F3D24B32C0D286163A0AC6063A0A4626B1B55C91F9A50AE5459925A90AD9A94579A939C57A9EB90545F965A90A892540330A4A140CAD140A4B538B4B32F3F3140CF41212120A2A4B32F2F3B8FC427D9D5C83146C150CB8808200310028EF');
CREATE TABLE migration (
	id INTEGER NOT NULL, 
	problem_id INTEGER NOT NULL, 
	source_id INTEGER NOT NULL, 
	target_id INTEGER NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(problem_id) REFERENCES problem (id), 
	FOREIGN KEY(source_id) REFERENCES attempt (id), 
	FOREIGN KEY(target_id) REFERENCES attempt (id)
);
CREATE TABLE operator_tally (
	problem_id INTEGER NOT NULL, 
	generation INTEGER NOT NULL, 
	operator VARCHAR NOT NULL, 
	attempts INTEGER NOT NULL, 
	evaluated INTEGER NOT NULL, 
	accepted INTEGER NOT NULL, 
	gain FLOAT NOT NULL, 
	cost_s FLOAT NOT NULL, 
	PRIMARY KEY (problem_id, generation, operator), 
	FOREIGN KEY(problem_id) REFERENCES problem (id)
);
INSERT INTO "operator_tally" VALUES(1,0,'tune',2,2,1,0.69,1.5);
CREATE TABLE parent (
	attempt_id INTEGER NOT NULL, 
	position INTEGER NOT NULL, 
	parent_id INTEGER NOT NULL, 
	PRIMARY KEY (attempt_id, position), 
	FOREIGN KEY(attempt_id) REFERENCES attempt (id), 
	FOREIGN KEY(parent_id) REFERENCES attempt (id)
);
INSERT INTO "parent" VALUES(3,0,1);
CREATE TABLE problem (
	id INTEGER NOT NULL, 
	"key" VARCHAR NOT NULL, 
	data_json VARCHAR NOT NULL, 
	graph_json VARCHAR, 
	status VARCHAR NOT NULL, 
	reason VARCHAR NOT NULL, 
	generation INTEGER, 
	seeded INTEGER, 
	PRIMARY KEY (id), 
	UNIQUE ("key")
);
INSERT INTO "problem" VALUES(1,'852eb6e2338fdfa99367809951d33aaec83e254969404f95f2ac6663e5dc881f','{"level":1,"id":1,"name":"P1","family":"elementwise","scale":"tiny","source":"SIZE = 1\nclass Model: ...\n"}',NULL,'open','',0,NULL);
INSERT INTO "problem" VALUES(2,'f1dd573b06dec30c472da7a91a7f897f49263d0d191c570d5890a82ecda85ee6','{"level":1,"id":2,"name":"P2","family":"elementwise","scale":"tiny","source":"SIZE = 2\nclass Model: ...\n"}',NULL,'open','',NULL,NULL);
CREATE TABLE run (
	id INTEGER NOT NULL, 
	format_version INTEGER NOT NULL, 
	name VARCHAR NOT NULL, 
	created VARCHAR NOT NULL, 
	config_json VARCHAR NOT NULL, 
	rng_seed VARCHAR NOT NULL, 
	scale VARCHAR NOT NULL, 
	device_json VARCHAR, 
	noise_floor FLOAT, 
	noisy INTEGER NOT NULL, 
	referee_version VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "run" VALUES(1,2,'demo','2026-01-02T03:04:05+00:00','{"a": 1}','170141183460469231731687303715884105729','small','{"kind":"cpu","name":"X","uuid":"u","threads":1,"versions":{"torch":"2.13"}}',0.015,0,'3','running');
CREATE TABLE seed_request (
	id INTEGER NOT NULL, 
	problem_id INTEGER NOT NULL, 
	name VARCHAR NOT NULL, 
	source VARCHAR NOT NULL, 
	generation INTEGER, 
	PRIMARY KEY (id), 
	FOREIGN KEY(problem_id) REFERENCES problem (id)
);
INSERT INTO "seed_request" VALUES(1,1,'mine.py','x = 1
',NULL);
CREATE INDEX ix_candidate_program ON candidate (problem_id, program);
CREATE INDEX ix_seed_request_problem_id ON seed_request (problem_id);
CREATE INDEX ix_attempt_cell ON attempt (problem_id, island, cell, objective);
CREATE INDEX ix_attempt_result_id ON attempt (result_id);
CREATE INDEX ix_evaluation_candidate_id ON evaluation (candidate_id);
CREATE INDEX ix_evaluation_problem_id ON evaluation (problem_id);
CREATE INDEX ix_migration_problem_id ON migration (problem_id);
COMMIT;
